#!/usr/bin/env bash
# Measures Machines. Prints a line "figure NAME VALUE UNIT" for each figure:
#
#   machine.cue_lines      lines of CUE that make the kind: schema and templates, without comments and empty lines
#   machine.go_lines       lines of Go, tests apart, in packages of the kind's own or with the name of its API group in code
#   machine.render.ms      a render of a Machine of the template small, the median of many
#   machine.1k.s         1,000 Machines are created, on KubeVirt's API: until the last write for them
#   machine.1k.writes    requests that write for all of them (Events and leases apart)
#   machine.1k.rss.mib   what the manager has in memory (RSS) then
#
#   bench/machine.sh [MACHINES]
#
# It takes the programs of "make kube". The machine should have nothing else to do.
set -euo pipefail
cd "$(dirname "$0")"
machines=${1:-1000}
root=$(cd .. && pwd)

lines() { grep -hcv '^[[:space:]]*\(//.*\)\?$' "$@" | awk '{ n += $1 } END { print n + 0 }'; }
printf 'figure machine.cue_lines %d lines\n' "$(lines "$root"/templates/machine/*.cue "$root"/schema/machine.cue "$root"/schema/networkconfiguration.cue)"
# Help texts name the group, too; they are examples, and begin with blanks or are within a sentence.
printf 'figure machine.go_lines %d lines\n' "$(cd "$root" && git ls-files '*.go' | grep -v -e _test.go -e '^bench/' -e '^tools/' -e '^generate.go$' | xargs grep -h '"[^"]*vitistack[^"]*"' | wc -l)"

export KUBEBUILDER_ASSETS=${KUBEBUILDER_ASSETS:-$root/.cache/kube/bin}
mkdir -p "$root/.cache/bench"
(cd "$root" && go build -ldflags '-s -w' -o .cache/bench/cuvee-manager ./cmd/cuvee-manager)
go build -o "$root/.cache/bench/" ./machine
"$root/.cache/bench/machine" -root "$root" -program "$root/.cache/bench/cuvee-manager" -machines "$machines"
