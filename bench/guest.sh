#!/usr/bin/env bash
# Measures a whole Debian without KVM. Prints a line "figure NAME VALUE UNIT" for each figure:
#
#   guest.boot_to_agent.s  from the guest's first instruction to the first answer of its agent
#
# The machine should have nothing else to do.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/debian-guest/build.sh >&2
go test -tags guest -count=1 -timeout 30m -v ./cmd/cuvee -run '^TestGuest$/^AgentAnswers$' | grep '^figure '
