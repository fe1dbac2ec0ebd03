#!/usr/bin/env bash
# Measures VMs on a cluster of one real node (make cluster), which it starts and ends. Prints a line "figure NAME VALUE UNIT" for each
# figure:
#
#   cluster.vm.p50.ms         a VM is created: until its condition Running is true, as the client sees it. VMs are created 100 ms apart
#   cluster.vm.p95.ms
#   cluster.pod.p50.ms        likewise a pod that does nothing, with the same volumes: the VM's own StatefulSet, claims, ConfigMap and
#                               Secrets, but the image and the VM's name; until the pod is ready. In turns with the VMs
#   cluster.vm.over_pod.ms    the difference of these medians
#   cluster.writes_per_vm     requests that write to the API server, by the manager and by the VM's runner, from the VM's creation until it
#                               runs: the median. Events are apart:
#   cluster.events_per_vm       are those
#   cluster.overhead.mib      what a VM's pod has in memory (its cgroup's, but file pages that can go at once) beyond its guest's RAM: the median
#   cluster.userland.p50.ms   a VM with Linux on its disk (tools/demo-guest) is created: until its guest's agent has answered; one at a time
#   cluster.max_vms           how many VMs run at once; a comment tells what ended it
#   image.manager.mb          the images, unpacked, of millions of bytes
#   image.runner.mb
#
#   bench/cluster.sh [-n VMS] [-r ROUNDS] [-u VMS] [-m VMS] [-a ACCELERATOR] [-t TIME]
#
#   -n  how many VMs are created each time: 20
#   -r  how often VMs, and pods, are created: 3
#   -u  how many VMs boot Linux: 3
#   -m  how many VMs run at once at most: 100. A node takes 110 pods
#   -a  what runs the guests' instructions: kvm, tcg, or auto, which is kvm where a guest really runs under it. kvm is used even where it
#       is not usable, as far as guests get there. Those that boot Linux are emulated (tcg) always
#   -t  the time between two creations: 100ms. With 100ms a small node has no CPU idle until the last one runs, and what is measured is the CPU that
#       all take together; with some seconds, how long one takes that is alone
#
# Lines that begin with # tell on the way what takes its time, and whose CPU, what guests run under, and who writes what.
#
# All guests but those that boot Linux have 64 MiB and stay in the firmware, which finds nothing to boot. Their volumes are directories, made before: no figure has the time of a provisioner in it.
#
# It takes root and the programs of "make kube", and minutes. The machine should have nothing else to do.
set -euo pipefail
cd "$(dirname "$0")"

vms=20 rounds=3 linux=3 most=100 accelerator=auto apart=100ms
while getopts n:r:u:m:a:t: option; do
    case $option in
    n) vms=$OPTARG ;;
    r) rounds=$OPTARG ;;
    u) linux=$OPTARG ;;
    m) most=$OPTARG ;;
    a) accelerator=$OPTARG ;;
    t) apart=$OPTARG ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
if [[ $# -gt 0 ]]; then
    echo "cluster.sh: unexpected argument: $1" >&2
    exit 2
fi

root=$(cd .. && pwd)
export KUBEBUILDER_ASSETS=${KUBEBUILDER_ASSETS:-$root/.cache/kube/bin} CUVEE_CLUSTER=$root/.cache/cluster-bench NODES=1
"$root/tools/need.sh" cluster
mkdir -p "$root/.cache/bench"
mapfile -t images < <("$root/tools/images/offline.sh" manager runner)
for image in "${images[@]}"; do
    name=$(basename "$image" | sed 's/^cuvee-\([a-z]*\)-.*/\1/')
    awk -v name="$name" -v bytes="$(stat -Lc %s "$image")" 'BEGIN { printf "figure image.%s.mb %.1f MB\n", name, bytes / 1e6 }'
done
mapfile -t disks < <(cd "$root" && tools/e2e/disks.sh | xargs -d '\n' realpath)
go build -o "$root/.cache/bench/cluster" ./cluster
go build -C "$root/tools/device-plugin" -o "$root/.cache/bench/device-plugin" .

# shellcheck disable=SC2317 # called by the trap
end() {
    local code=$?
    trap - EXIT
    # It would end with us, but a node that ends waits for nobody.
    [[ -z ${plugin:-} ]] || kill "$plugin" 2>/dev/null || true
    "$root/tools/cluster/cluster.sh" down || code=1
    exit "$code"
}
trap end EXIT
"$root/tools/cluster/cluster.sh" down
"$root/tools/cluster/cluster.sh" up
"$root/tools/cluster/cluster.sh" load "${disks[@]}"
export KUBECONFIG=$CUVEE_CLUSTER/kubeconfig PATH=$KUBEBUILDER_ASSETS:$PATH
kubectl apply -f "$root/kustomize/crd/vmoperator.jdrupes.org_vms.yaml" >&2
kubectl apply -k "$root/kustomize/confine-runner" >&2
kubectl apply -k cluster/install >&2
kubectl -n cuvee-system rollout status deployment/vm-operator --timeout=300s >&2
kubectl create namespace bench >&2
kubectl label namespace bench pod-security.kubernetes.io/enforce=restricted >&2
kubectl -n bench apply -k "$root/kustomize/runner" >&2
kubectl -n bench apply -f "$root/tools/e2e/repository.yaml" >&2
if [[ $accelerator != tcg && -e /dev/kvm ]]; then
    "$root/.cache/bench/device-plugin" -dir "$CUVEE_CLUSTER/nodes/node1/kubelet/device-plugins" -resource devices.kubevirt.io/kvm -device /dev/kvm \
        -count 110 >&2 &
    plugin=$!
    kubectl wait node/node1 --for='jsonpath={.status.allocatable.devices\.kubevirt\.io/kvm}=110' --timeout=60s >&2
fi
"$root/.cache/bench/cluster" -accelerator "$accelerator" -apart "$apart" -nodes "$CUVEE_CLUSTER/nodes" -vms "$vms" -rounds "$rounds" -linux "$linux" -most "$most"
