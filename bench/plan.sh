#!/usr/bin/env bash
# Measures "cuvee plan", as a process of its own, against a real API server that has VMs with one disk, and all the objects that an
# engine makes for them. Prints a line "figure NAME VALUE UNIT" for each figure, where 10k is the number of VMs; each is of the median
# by time:
#
#   plan.10k.s         from the start of the process to its end, with a site's templates that change two objects of every VM
#   plan.10k.cpu_s     what the process used of the CPUs
#   plan.10k.rss.mib   the most that it had in memory (RSS)
#   plan.10k.same.s    the same with templates that change nothing
#
#   bench/plan.sh [-n VMS] [-r ROUNDS]
#
#   -n  how many VMs there are, 10000 if not given
#   -r  how often each plan is made: 3
#
# It takes the programs of "make kube", and minutes. The machine should have nothing else to do.
set -euo pipefail
cd "$(dirname "$0")"

vms=10000 rounds=3
while getopts n:r: option; do
    case $option in
    n) vms=$OPTARG ;;
    r) rounds=$OPTARG ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
if [[ $# -gt 0 ]]; then
    echo "plan.sh: unexpected argument: $1" >&2
    exit 2
fi

root=$(cd .. && pwd)
export KUBEBUILDER_ASSETS=${KUBEBUILDER_ASSETS:-$root/.cache/kube/bin}
mkdir -p "$root/.cache/bench"
(cd "$root" && go build -ldflags '-s -w' -o .cache/bench/cuvee ./cmd/cuvee)
go build -o "$root/.cache/bench/" ./plan
"$root/.cache/bench/plan" -root "$root" -program "$root/.cache/bench/cuvee" -vms "$vms" -rounds "$rounds"
