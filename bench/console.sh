#!/usr/bin/env bash
# Measures the consoles of a VM: what its serial port takes over websockets. Prints a line "figure NAME VALUE UNIT" for each figure:
#
#   console.serial.mib_s           what one client receives while the guest writes as fast as it can
#   console.echo.p99.ms            from a key that a client types to the guest's answer at the client
#   console.memory.kib_per_client  what the server has in memory for one more client, which reads nothing
#
# The guest is the other end of the socket that QEMU would have, so that the figures are the runner's own. The machine should have nothing else to do.
set -euo pipefail
cd "$(dirname "$0")/.."
# Building aside it takes ten seconds. No figure at all is a failure of the benchmark.
timeout 150 go test ./runner/consoleserver -run '^$' -bench '^BenchmarkConsole' -benchtime 1x -count 1 -v | grep '^figure '
