#!/usr/bin/env bash
# Measures the start of a VM by cuvee-runner against libvirt, which it installs if it is not there (Debian's packages, see
# tools/need.sh). Prints:
#
#   runner.start.vs_libvirt           the start of the process cuvee-runner until its guest runs, over "virsh create" of a
#                                     domain with the same devices and files (-accel tcg); in turns, the median of the ratios
#   runner.start.libvirt.ms           the median of libvirt's
#   runner.start.beside_libvirt.ms    the median of the runner's
#
#   bench/libvirt.sh [-s STARTS]
#
#   -s  how often each way to start is measured, 40 if not given
#
# It takes root: libvirt's daemon runs in a mount namespace of its own, where its directories are empty ones, so that
# nothing is seen of, or left in, a libvirt that the machine may have. Neither security drivers nor cgroups nor mount
# namespaces are put around its QEMU, which would only make libvirt slower.
set -euo pipefail
cd "$(dirname "$0")"

starts=40
while getopts s: option; do
    case $option in
    s) starts=$OPTARG ;;
    *) exit 2 ;;
    esac
done
if [[ $EUID -ne 0 ]]; then
    echo "libvirt.sh: this takes root, for a libvirt of its own" >&2
    exit 1
fi

root=$(cd .. && pwd)
if [[ ${IN_NAMESPACE:-} != yes ]]; then
    "$root/tools/need.sh" bench-libvirt
    mkdir -p "$root/.cache/bench"
    (cd "$root" && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o .cache/bench/cuvee-runner ./cmd/cuvee-runner)
    go build -o "$root/.cache/bench/" ./start
    IN_NAMESPACE=yes exec unshare --mount --propagation private "./$(basename "$0")" -s "$starts"
fi

for dir in /etc/libvirt /run/libvirt /var/lib/libvirt /var/cache/libvirt /var/log/libvirt; do
    mkdir -p "$dir"
    mount -t tmpfs -o mode=755 tmpfs "$dir"
done
# libvirtd looks for the user of Debian's package libvirt-daemon-system even where the configuration names another.
for table in passwd group; do
    cp "/etc/$table" "/run/libvirt/$table"
    grep -q '^libvirt-qemu:' "/etc/$table" || sed -n 's/^nobody:[^:]*:\|^nogroup:[^:]*:/libvirt-qemu:x:/p' "/etc/$table" >>"/run/libvirt/$table"
    mount --bind "/run/libvirt/$table" "/etc/$table"
done
cat >/etc/libvirt/qemu.conf <<'END'
user = "root"
group = "root"
dynamic_ownership = 0
security_driver = "none"
cgroup_controllers = []
namespaces = []
stdio_handler = "file"
END
cat >/etc/libvirt/libvirtd.conf <<'END'
auth_unix_rw = "none"
unix_sock_dir = "/run/libvirt"
END
log=$(mktemp)
daemon=
# shellcheck disable=SC2317 # It is called by the trap.
tidy() {
    [[ -z $daemon ]] || kill "$daemon" 2>/dev/null || true
    rm -f "$log"
}
trap tidy EXIT
libvirtd --config /etc/libvirt/libvirtd.conf --pid-file /run/libvirt/bench.pid >"$log" 2>&1 &
daemon=$!
uri='qemu+unix:///system?socket=/run/libvirt/libvirt-sock'
for _ in $(seq 100); do
    if virsh --quiet --connect "$uri" version >/dev/null 2>&1; then
        "$root/.cache/bench/start" -root "$root" -runner "$root/.cache/bench/cuvee-runner" -pairs "$starts" -libvirt "$uri" || {
            cat "$log" >&2
            exit 1
        }
        exit 0
    fi
    kill -0 "$daemon" 2>/dev/null || break
    sleep 0.1
done
echo "libvirt.sh: libvirtd does not answer:" >&2
cat "$log" >&2
exit 1
