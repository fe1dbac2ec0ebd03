#!/usr/bin/env bash
# Measures cuvee-manager, as a process of its own, against a real API server. Nothing runs pods: a VM is done when all its objects
# are there. Prints a line "figure NAME VALUE UNIT" for each figure, where 10k is the number of VMs:
#
#   controller.create.vs_bare     VMs a second, from the first one's creation to the last one's last object, over those of a loop
#                                 that creates the VMs, too, and applies the same objects, rendered before, with the same client and
#                                 as many at a time; in turns, the median of the ratios. The loop writes no status and no Events.
#   controller.create.rendering.vs_bare   the same of a loop that also renders each VM, once: no manager that renders can do better
#                                 while it is the CPUs that the work waits for
#   controller.create.per_s, .bare.per_s   the medians of both
#   controller.create.cpu_ms      what the manager's process uses of a CPU for a VM that is created, when there are 10k
#   controller.create.renders     how often it renders such a VM until it has nothing more to do
#   controller.cost_growth        that over the same when there are 100
#   controller.rss.100.mib        what the manager has in memory (RSS) with 100 VMs, when it has nothing to do;
#   controller.rss.1k.mib           likewise with 1,000 (left out if there are fewer)
#   controller.rss.10k.mib          and with all
#   controller.rss.*.peak.mib     the most that it had in memory until then
#   controller.drift.p50.ms, .p99.ms   somebody edits a ConfigMap, a StatefulSet: until the field is what it was
#   controller.reload.10k.s       a site's template is edited, and becomes another StatefulSet of each VM: until the last is applied
#   controller.restart.10k.s      the manager starts anew: until it has rendered all VMs, and found nothing to do
#   controller.noop.writes        requests that write (Events and leases apart) while it looks at each VM once, without a reason
#   controller.noop.cpu_s         the manager's CPU time meanwhile
#
#   bench/controller.sh [-n VMS] [-r ROUNDS] [-b VMS] [-e EDITS] [-t TIME] [-d ADDRESS] [-o PARTS]
#
#   -n  how many VMs there are in the end, 10000 if not given
#   -r  how often creation is measured, by the manager and by the loop: 5
#   -b  how many VMs are created each time: 100
#   -e  how many objects are edited: 200
#   -t  in what time the manager looks at each VM once: 1m
#   -d  where the manager serves its profiles (/debug/pprof) meanwhile; 0, which is nowhere
#   -o  what to measure, with commas: create (with the first few hundred VMs), cost, memory, drift, reload, noop; all if not given.
#       "-o create" does not take many VMs, and makes no more
#
# It takes the programs of "make kube", and minutes. The machine should have nothing else to do.
set -euo pipefail
cd "$(dirname "$0")"

vms=10000 rounds=5 batch=100 edits=200 resync=1m debug=0 only=
while getopts n:r:b:e:t:d:o: option; do
    case $option in
    n) vms=$OPTARG ;;
    r) rounds=$OPTARG ;;
    b) batch=$OPTARG ;;
    e) edits=$OPTARG ;;
    t) resync=$OPTARG ;;
    d) debug=$OPTARG ;;
    o) only=$OPTARG ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
if [[ $# -gt 0 ]]; then
    echo "controller.sh: unexpected argument: $1" >&2
    exit 2
fi

root=$(cd .. && pwd)
export KUBEBUILDER_ASSETS=${KUBEBUILDER_ASSETS:-$root/.cache/kube/bin}
mkdir -p "$root/.cache/bench"
(cd "$root" && go build -ldflags '-s -w' -o .cache/bench/cuvee-manager ./cmd/cuvee-manager)
go build -o "$root/.cache/bench/" ./controller
"$root/.cache/bench/controller" -root "$root" -program "$root/.cache/bench/cuvee-manager" \
    -vms "$vms" -rounds "$rounds" -batch "$batch" -drifts "$edits" -resync "$resync" -debug "$debug" -only "$only"
