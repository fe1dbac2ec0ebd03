#!/usr/bin/env bash
# Measures the start of cuvee-manager, as a process of its own, against a real API server. Prints a line "figure NAME VALUE UNIT" for each
# figure:
#
#   manager.ready.ms       from the start of the process until /readyz answers with 200, which is when it has compiled the templates and
#                          knows what is in the cluster, without election of a leader; the median
#   manager.ready.max.ms   the longest
#   manager.binary.mib     the size of the program, stripped
#
#   bench/manager.sh [-r ROUNDS]
#
#   -r  how often it is started: 10
#
# It takes the programs of "make kube". The machine should have nothing else to do.
set -euo pipefail
cd "$(dirname "$0")"

rounds=10
while getopts r: option; do
    case $option in
    r) rounds=$OPTARG ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
if [[ $# -gt 0 ]]; then
    echo "manager.sh: unexpected argument: $1" >&2
    exit 2
fi

root=$(cd .. && pwd)
export KUBEBUILDER_ASSETS=${KUBEBUILDER_ASSETS:-$root/.cache/kube/bin}
mkdir -p "$root/.cache/bench"
(cd "$root" && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o .cache/bench/cuvee-manager ./cmd/cuvee-manager)
go build -o "$root/.cache/bench/" ./manager
"$root/.cache/bench/manager" -root "$root" -program "$root/.cache/bench/cuvee-manager" -rounds "$rounds"
