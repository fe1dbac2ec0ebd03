#!/usr/bin/env bash
# Holds tools/cluster/README.md to what it says, on a cluster of two nodes: volumes, pods that reach each other, nodes that fail and come
# back, and that nothing is left of it, also if it was killed. It takes minutes.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
top=$(realpath "$here/../..")
CUVEE_CLUSTER=$(realpath -m "$top/.cache/cluster-test")
export CUVEE_CLUSTER KUBEBUILDER_ASSETS=${KUBEBUILDER_ASSETS:-$top/.cache/kube/bin}
patience=300 # seconds for each thing that is waited for
file=$CUVEE_CLUSTER/nodes/volumes

say() { printf '%5ds  %s\n' "$SECONDS" "$*"; }
fail() {
    echo "cluster test: $*" >&2
    [[ ! -e $CUVEE_CLUSTER/kubeconfig ]] || k get pods,pvc,pv,events -o wide >&2 || true
    exit 1
}

k() { "$KUBEBUILDER_ASSETS/kubectl" --kubeconfig="$CUVEE_CLUSTER/kubeconfig" -n test "$@"; }

await() { # WHAT COMMAND...
    local what=$1 end=$((SECONDS + patience))
    shift
    until "$@" >/dev/null 2>&1; do
        [[ $SECONDS -lt $end ]] || fail "$what: not within $patience s"
        sleep 0.5
    done
    say "$what"
}

# shellcheck source=tools/kube-node/loops.sh
. "$here/../kube-node/loops.sh"
devices= # those that kubelet has

# What a cluster may leave on this machine. Others may have clusters here, so only what is of this one counts.
leftovers() {
    local path device
    pgrep -af "$CUVEE_CLUSTER" | grep -v "^$$ " || true
    find /sys/fs/cgroup -maxdepth 4 -type d -name 'cuvee-node-*' | while IFS= read -r path; do
        grep -qs . "/proc/${path##*-}/cmdline" || echo "$path"
    done
    losetup -nl -O NAME,BACK-FILE | grep -F "$CUVEE_CLUSTER" || true
    # kubelet's, as they were before the end; their files have no names now
    while read -r device _; do losetup -nl -O NAME,BACK-FILE "$device" 2>/dev/null | awk '$2 == "/"'; done <<<"$devices"
    grep -F "$CUVEE_CLUSTER" /proc/mounts || true
    ip -o link | grep "^$link: " || true
    [[ ! -e $CUVEE_CLUSTER ]] || echo "$CUVEE_CLUSTER"
}

# The number of the network device of this machine's end. The name may be another cluster's soon.
own_link() {
    local server device
    server=$(k config view -o 'jsonpath={.clusters[0].cluster.server}')
    server=${server#https://}
    device=$(ip -o route get "${server%:*}" | sed 's/.* dev \([^ ]*\) .*/\1/')
    cat "/sys/class/net/$device/ifindex"
}

# The kernel takes its time for the network of processes that have ended.
nothing_left() {
    local left end=$((SECONDS + patience))
    until left=$(leftovers) && [[ -z $left ]]; do
        [[ $SECONDS -lt $end ]] || fail "$1 leaves: $left"
        sleep 0.5
    done
    say "nothing is left: $1"
}

node_is() { # NODE True|Unknown
    [[ $(k get node "$1" -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}') == "$2" ]]
}

works() { # POD: it has written to all of its volumes, and read what the other one wrote
    [[ $(k logs "$1" --tail=1) == "$1 has all" ]]
}

restarts() { k get pod "$1" -o 'jsonpath={.status.containerStatuses[0].restartCount}'; }

restarted() { [[ $(restarts "$1") -gt $2 ]]; }

# What a pod serves to another one, on another node, by its address.
reached() { # FROM TO
    local address
    address=$(k get pod "$2" -o 'jsonpath={.status.podIP}')
    # shellcheck disable=SC2016 # it is the shell in the pod that replaces $0
    [[ $(k exec "$1" -- bash -c 'exec 3<>/dev/tcp/$0/8080 && cat <&3' "$address") == "$2 serves" ]]
}

# shellcheck disable=SC2317 # called by the trap
end() {
    local code=$?
    trap - EXIT
    "$here/cluster.sh" down
    exit "$code"
}

# ---- What the README says

if [[ ${CUVEE_E2E:-} == skip || ${CLUSTER:-} == existing ]]; then
    say "cluster test: SKIPPED, as CUVEE_E2E or CLUSTER says: it is about nodes of this machine"
    exit
fi
trap end EXIT
"$here/cluster.sh" down 2>/dev/null
NODES=2 "$here/cluster.sh" up
link=$(own_link)
[[ $("$here/cluster.sh" up 2>&1) == *"up already, with 2 nodes"* ]] || fail "it is not said that it is up"
if NODES=1 "$here/cluster.sh" up 2>/dev/null; then fail "it is up with another number of nodes than told"; fi
"$here/cluster.sh" block test-block 32Mi
if "$here/cluster.sh" block test-block 32Mi 2>/dev/null; then fail "a block volume is made again"; fi
say "two nodes"

k create namespace test >/dev/null
k label namespace test pod-security.kubernetes.io/enforce=restricted >/dev/null
k apply -f "$here/test.yaml" >/dev/null
await "a pod on node1 has its volumes" works one
await "a pod on node2 has its volumes, and sees what the other one writes" works two
await "a pod reaches one on another node" reached one two
await "and back" reached two one
[[ $(head -c 3 "$file/block/test-block.img") == two ]] || fail "what was written to the block volume is not in its file"
grep -q '"resource":"pods","namespace":"test"' "$CUVEE_CLUSTER/nodes/control/log/audit.log" || fail "the audit log does not have a pod"

before=$(restarts two)
"$here/node.sh" kill node2
[[ $("$here/node.sh" list | tr '\n' ' ') == "node1 up node2 down " ]] || fail "node2 is not said to be down"
await "a node that has lost its power is not ready" node_is node2 Unknown
"$here/node.sh" start node2
await "it is back" node_is node2 True
await "and what ran on it starts anew" restarted two "$before"
await "with its volumes" works two

"$here/node.sh" disconnect node2
await "a node that is cut off is not ready" node_is node2 Unknown
"$here/node.sh" connect node2
await "it is connected again" node_is node2 True
await "and its pods are reached" reached one two

devices=$(kubelet_loops "$CUVEE_CLUSTER")
[[ -n $devices ]] || fail "kubelet has no loop device: what is to be tested has changed"
"$here/cluster.sh" down
nothing_left "make cluster-down"

NODES=2 "$here/cluster.sh" up
link=$(own_link)
k create namespace test >/dev/null
"$here/cluster.sh" block test-block 32Mi
k apply -f "$here/test.yaml" >/dev/null
await "a pod has its volumes" works two
devices=$(kubelet_loops "$CUVEE_CLUSTER")
kill -KILL "$(<"$CUVEE_CLUSTER/pid")"
if "$here/cluster.sh" load 2>/dev/null; then fail "a cluster that was killed is said to be there"; fi
"$here/cluster.sh" down
nothing_left "a cluster that was killed, and make cluster-down"
trap - EXIT
say "done"
