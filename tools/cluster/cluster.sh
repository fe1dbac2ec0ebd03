#!/usr/bin/env bash
# A cluster to work and test on, of real nodes that are processes of this machine. It stays up until it is told to end.
#
#   tools/cluster/cluster.sh up               starts it, if it is not up; NODES=1 to 3 says how many nodes, 1 if not set
#   tools/cluster/cluster.sh down             ends it; nothing is left but what it has built
#   tools/cluster/cluster.sh load IMAGE.tar ...    brings images onto all its nodes, those of the manager and the runner if none is given
#   tools/cluster/cluster.sh block NAME SIZE  makes one more PersistentVolume of volumeMode Block
#   tools/cluster/cluster.sh check            fails on a machine that cannot have such a cluster, and says why
#   tools/cluster/cluster.sh kubeconfig       prints the kubeconfig for tests, and starts the cluster if need be
#
# The last two are for CLUSTER=existing, too: then it is the KUBECONFIG that is set.
#
# CUVEE_CLUSTER is the directory, .cache/cluster if not set; so there can be several clusters. README.md has the rest.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
top=$(realpath "$here/../..")
work=$(realpath -m "${CUVEE_CLUSTER:-$top/.cache/cluster}")
nodes=$work/nodes # what node.sh works in
export KUBEBUILDER_ASSETS=${KUBEBUILDER_ASSETS:-$top/.cache/kube/bin}

provisioner=github.com/rancher/local-path-provisioner
provisioner_version=v0.0.30

say() { printf 'cluster: %4ds  %s\n' "$SECONDS" "$*" >&2; }
fail() {
    echo "cluster: $*" >&2
    exit 1
}

# shellcheck source=tools/kube-node/loops.sh
. "$here/../kube-node/loops.sh"

kubectl() { "$KUBEBUILDER_ASSETS/kubectl" --kubeconfig="$work/kubeconfig" "$@"; }

# Is it up? The id of a process may have become another's.
alive() {
    local pid
    pid=$(cat "$work/pid" 2>/dev/null) || return 1
    { tr '\0' ' ' <"/proc/$pid/cmdline" | grep -F "node.sh -n $(<"$work/count") $nodes "; } >/dev/null 2>&1
}

# ---- Images

# The provisioner of volumes is in an image under its own name, so that its own manifest is right.
provisioner_image() {
    local image=$top/.cache/local-path-provisioner-$provisioner_version.tar root
    if ! [[ -e $image ]]; then
        say "building $provisioner $provisioner_version (once, a minute or two)"
        root=$(mktemp -d)
        mkdir -p "$root/usr/bin"
        chmod 755 "$root"
        GOBIN=$root/usr/bin CGO_ENABLED=0 go install -trimpath -ldflags '-s -w' "$provisioner@$provisioner_version" >&2
        "$here/../kube-node/image.sh" "$root" "rancher/local-path-provisioner:$provisioner_version" "$image" '["/usr/bin/local-path-provisioner"]'
        rm -r "$root"
    fi
    echo "$image"
}

product_images() {
    local images
    mapfile -t images < <("$top/tools/images/offline.sh" manager runner)
    [[ ${#images[@]} == 2 ]] || fail "there are no images of the manager and the runner, see above"
    printf '%s\n' "${images[@]}"
}

load() { # [IMAGE.tar ...]
    local image node out images=("$@") ctr=("$top"/.cache/kube-node/containerd-*/ctr)
    alive || fail "there is no cluster: run make cluster"
    [[ $# -gt 0 ]] || mapfile -t images < <(product_images)
    for node in "$nodes"/node*; do
        [[ -e $node/ready ]] || continue
        for image in "${images[@]}"; do
            out=$("${ctr[-1]}" -a "/proc/$(<"$node/pid")/root/run/containerd/containerd.sock" -n k8s.io images import "$image" 2>&1) || fail "$out"
            say "$(basename "$image") is on ${node##*/}"
        done
    done
}

# ---- Volumes

storage() {
    local dir=$work/storage module
    module=$(cd "$top" && go mod download -json "$provisioner@$provisioner_version" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
    mkdir -p "$dir" "$nodes/volumes"/{local,shared,block}
    cp "$module/deploy/local-path-storage.yaml" "$dir/"
    chmod u+w "$dir/local-path-storage.yaml"
    cp "$here"/storage/*.yaml "$dir/"
    sed -i "s|@VOLUMES@|$nodes/volumes|" "$dir/config.yaml"
    kubectl apply -k "$dir" >/dev/null
    kubectl -n local-path-storage wait deployment/local-path-provisioner --for=condition=Available --timeout=300s >/dev/null ||
        fail "the provisioner of volumes does not run: $(kubectl -n local-path-storage describe pods | tail -n 5)"
}

# A file, on a loop device, which all nodes see.
block() { # NAME SIZE
    local file=$nodes/volumes/block/$1.img device bytes
    [[ $# == 2 && $1 =~ ^[a-z0-9][a-z0-9-]*$ ]] || fail "usage: block NAME SIZE, where NAME is of small letters, digits and dashes"
    bytes=$(numfmt --from=auto "$2" 2>/dev/null) || fail "block $1 $2: want a size, for instance 64Mi"
    alive || fail "there is no cluster: run make cluster"
    [[ ! -e $file ]] || fail "there is a block volume $1 already"
    truncate -s "$bytes" "$file"
    device=$(losetup -f --show "$file")
    sed -e "s|@NAME@|$1|; s|@SIZE@|$2|; s|@DEVICE@|$device|" "$here/block.yaml" | kubectl apply -f - >/dev/null
    say "block volume $1 of $2, $device"
}

# ---- Up and down

up() {
    local count=${NODES:-1} images pid i
    [[ $count =~ ^[1-3]$ ]] || fail "NODES=$count: want 1, 2 or 3"
    if alive; then
        [[ -z ${NODES:-} || $NODES == "$(<"$work/count")" ]] || fail "it is up with $(<"$work/count") nodes, not $NODES: make cluster-down ends it"
        say "it is up already, with $(<"$work/count") nodes"
        hint
        return
    fi
    "$here/../kube-node/node.sh" -c || exit 1
    [[ -x $KUBEBUILDER_ASSETS/kubelet ]] || fail "no kubelet in KUBEBUILDER_ASSETS=$KUBEBUILDER_ASSETS: run make kube"
    "$top/tools/need.sh" cluster >&2
    clean
    mkdir -p "$work"
    say "images"
    mapfile -t images < <(product_images && provisioner_image)
    [[ ${#images[@]} == 3 ]] || exit 1
    say "control plane and nodes: $count"
    echo "$count" >"$work/count"
    # Nobody's child, so that it stays when this shell, and the terminal, ends.
    setsid "$here/../kube-node/node.sh" -n "$count" "$nodes" "${images[@]}" </dev/null >"$work/out" 2>"$work/log" &
    pid=$!
    echo "$pid" >"$work/pid"
    # Half a cluster is none; its logs stay.
    trap 'stop' EXIT
    trap 'exit 1' INT TERM
    until [[ -s $work/out ]]; do
        kill -0 "$pid" 2>/dev/null || fail "there is no cluster: $(cat "$work/log")"
        sleep 0.2
    done
    cp "$(<"$work/out")" "$work/kubeconfig"
    say "volumes"
    storage
    for i in 1 2; do block "block-$i" 1Gi; done
    trap - EXIT INT TERM
    say "it is up"
    hint
}

hint() {
    cat >&2 <<END

    export KUBECONFIG=$work/kubeconfig PATH=$KUBEBUILDER_ASSETS:\$PATH
    kubectl get nodes

make cluster-down ends it.
END
}

# What a cluster that has ended, or was killed, has left.
clean() {
    detach_loops "$work"
    rm -rf "$work"
}

stop() {
    local pid
    alive || return 0
    pid=$(<"$work/pid")
    kill -TERM "$pid"
    for _ in $(seq 600); do
        [[ -d /proc/$pid ]] || return 0
        sleep 0.1
    done
    fail "it does not end: process $pid"
}

down() {
    stop
    "$here/../kube-node/node.sh" -r
    clean
    say "nothing of it is left"
}

# ---- For tests

check() {
    local why
    case ${CLUSTER:-} in
    existing) [[ -n ${KUBECONFIG:-} ]] || fail "CLUSTER=existing takes the cluster of KUBECONFIG, which is not set" ;;
    '') alive || why=$("$here/../kube-node/node.sh" -c 2>&1) ||
        fail "$why (tests: CUVEE_E2E=skip skips those that need a cluster, CLUSTER=existing has them take that of KUBECONFIG)" ;;
    *) fail "CLUSTER=$CLUSTER: want existing, or nothing" ;;
    esac
}

kubeconfig() {
    check
    if [[ ${CLUSTER:-} == existing ]]; then
        existing
        return
    fi
    up
    echo "$work/kubeconfig"
}

# The contributor's own.
existing() {
    local answer
    answer=$("$KUBEBUILDER_ASSETS/kubectl" get nodes 2>&1) || fail "the cluster of KUBECONFIG=$KUBECONFIG does not answer: ${answer##*$'\n'}"
    echo "$answer" >&2
    cat >&2 <<'END'
cluster: its nodes need the images cuvee-manager:offline and cuvee-runner:offline, in the files that make images-offline prints:
cluster:     kind load image-archive FILE
cluster:     k3s ctr images import FILE
END
    echo "$KUBECONFIG"
}

command=${1:-}
[[ $# == 0 ]] || shift
case $command in
up | down | load | block | check | kubeconfig) "$command" "$@" ;;
*)
    sed -n '2,/^set/s/^# \?//p' "$0" >&2
    exit 2
    ;;
esac
