#!/usr/bin/env bash
# Measures the runner and what it runs. Prints a line "figure NAME VALUE UNIT" for each figure:
#
#   runner.binary.mib           the program cuvee-runner, built without cgo and without symbols
#   runner.start.vs_qemu        the start of the process cuvee-runner until its guest runs (cont has been done), over the same
#                               for bare QEMU with the same arguments (-accel tcg); in turns, the median of the ratios
#   runner.start.ms, .qemu.ms   the medians of both
#   qmp.p50.ms, qmp.p99.ms      query-status of a running VM through runner/qmp
#   runner.idle.cpu_percent     what the runner uses of one CPU while its VM is left alone
#   runner.rss.mib              what it has in memory then
#   vm.overhead.mib             what runner and QEMU have in memory beyond the guest's RAM (a VM with 1 CPU, 1 GiB and a
#                               display), with KVM; what they share with other processes counts in part. It takes a KVM that
#                               runs firmware, and is left out without it, with a word on that
#   vm.overhead.qemu.mib        QEMU's part of that
#   vm.overhead.guest_used.mib  how much of the guest's RAM is in memory, which is not in the overhead
#   vm.overhead.tcg.*           the same without KVM: QEMU keeps translated code, too
#   runner.start.vs_libvirt     and two more: see bench/libvirt.sh. They take root, and are left out without it, with a word on that.
#
#   bench/runner.sh [-s STARTS] [-c COMMANDS] [-i SECONDS] [-a ACCELERATOR]
#
#   -s  how often each way to start is measured, 40 if not given
#   -c  how many QMP commands are measured, 5000
#   -i  how long the idle VM is looked at, 20 seconds; 0 leaves it out
#   -a  tcg, or kvm where /dev/kvm works
#
# The machine should have nothing else to do.
set -euo pipefail
cd "$(dirname "$0")"

starts=40 commands=5000 idle=20 accelerator=tcg
while getopts s:c:i:a: option; do
    case $option in
    s) starts=$OPTARG ;;
    c) commands=$OPTARG ;;
    i) idle=$OPTARG ;;
    a) accelerator=$OPTARG ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
if [[ $# -gt 0 ]]; then
    echo "runner.sh: unexpected argument: $1" >&2
    exit 2
fi

root=$(cd .. && pwd)
mkdir -p "$root/.cache/bench"
(cd "$root" && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o .cache/bench/cuvee-runner ./cmd/cuvee-runner)
go build -o "$root/.cache/bench/" ./start
"$root/.cache/bench/start" -root "$root" -runner "$root/.cache/bench/cuvee-runner" \
    -pairs "$starts" -commands "$commands" -idle "${idle}s" -accelerator "$accelerator"
if [[ $EUID -eq 0 ]]; then
    ./libvirt.sh -s "$starts"
else
    echo "runner.sh: no figure runner.start.vs_libvirt, which takes root: a libvirt of its own" >&2
fi
