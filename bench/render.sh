#!/usr/bin/env bash
# Measures rendering and the start of a VM. Prints a line "figure NAME VALUE UNIT" for each figure:
#
#   render.full.ms, .allocs         check and render a VM with 4 disks, 2 networks, cloud-init and a display: every object
#                                   as JSON; each time another name and other values, no result is kept (median)
#   render.full.vs_helm             the same over Helm's engine making equal objects (bench/chart) and parsing its YAML;
#                                   in turns, the median of the ratios
#   render.full.vs_helm_validating  the same, but Helm validates the values against the same schema, as "helm template"
#                                   does; it compiles the schema each time
#   render.full.helm*               what Helm itself took
#   render.min.*                    all this for a VM with one disk
#   render.memo_hit.us              the same input once more through render.Memo
#   render.heap_growth.kib          what is left in memory after 100,000 renders (one in ten of the full VM)
#   cli.render.ms                   the whole process "cuvee render -f full.yaml"
#   run.start.vs_qemu               the runner's start of a VM until its guest runs, over bare QEMU with the same arguments
#                                   (-accel tcg); in turns, the median of the ratios
#
#   bench/render.sh [-n ROUNDS] [-p PROCESSES] [-r HEAP_RENDERS] [-s STARTS]
#
#   -n  how often each way of rendering is measured, 300 if not given
#   -p  how often the process is, 20
#   -r  how many renders the growth of the heap is measured over, 100000 (some minutes); 0 leaves it out
#   -s  how often each way to start is measured, 40; 0 leaves it out
#
# Progress is told on stderr. The machine should have nothing else to do.
set -euo pipefail
cd "$(dirname "$0")"

rounds=300 processes=20 renders=100000 starts=40
while getopts n:p:r:s: option; do
    case $option in
    n) rounds=$OPTARG ;;
    p) processes=$OPTARG ;;
    r) renders=$OPTARG ;;
    s) starts=$OPTARG ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
if [[ $# -gt 0 ]]; then
    echo "render.sh: unexpected argument: $1" >&2
    exit 2
fi

root=$(cd .. && pwd)
(cd "$root" && go build -o bin/cuvee ./cmd/cuvee)
mkdir -p "$root/.cache/bench"
go build -o "$root/.cache/bench/" ./render ./start
if ((starts > 0)); then
    "$root/.cache/bench/start" -root "$root" -pairs "$starts"
fi
"$root/.cache/bench/render" -root "$root" -cuvee "$root/bin/cuvee" -rounds "$rounds" -processes "$processes" -heap-renders "$renders"
