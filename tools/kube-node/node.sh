#!/usr/bin/env bash
# A cluster of one real node: containerd, kubelet and kube-proxy beside a control plane of kube-up, all as processes of this machine.
#
#   KUBEBUILDER_ASSETS=$(make kube) tools/kube-node/node.sh DIR [IMAGE.tar ...]
#
# DIR is new, gets all data and logs, and stays. When the node is ready the path of the administrator's kubeconfig is printed, which works
# from this machine. The node runs until this script gets SIGINT or SIGTERM, or its standard input ends if that is a pipe. Nothing it
# started is left then, nor if it is killed.
#
# The node has namespaces of its own (mount, pid, network, UTS, IPC, cgroup): all its processes end with the first one, and with them go its
# mounts, network devices and packet filters. It sees the files of this machine, so a volume of the type local can be any directory.
#
# It takes root, and cgroup v1 or v2; with v2 it was never tried. containerd, runc and the CNI plugins are taken from Debian packages, which
# are unpacked into .cache/kube-node and not installed.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
cache=$(realpath -m "$here/../../.cache/kube-node")

# What kubelet wants to find of cgroup v1, the named hierarchy included.
controllers=(cpu cpuacct cpuset memory devices freezer blkio pids systemd)

# Where the node has directories of its own in places that nobody can change.
mountpoints=(/var/lib/kubelet /var/lib/cni)

say() { echo "node: $*" >&2; }
fail() {
    say "$*"
    exit 1
}

unpack() { # PACKAGE...: the files of Debian packages, once for each version
    local key
    key=$(apt-cache show "$@" 2>/dev/null | sed -n 's/^Filename: //p' | sha256sum | cut -c1-12)
    if ! [[ -d $cache/root-$key ]]; then
        rm -rf "$cache"/root-* "$cache/debs"
        mkdir -p "$cache/debs" "$cache/root-new"
        (cd "$cache/debs" && apt-get -o APT::Sandbox::User=root download "$@" >&2)
        for deb in "$cache"/debs/*.deb; do
            dpkg-deb -x "$deb" "$cache/root-new"
        done
        mv "$cache/root-new" "$cache/root-$key"
    fi
    root=$cache/root-$key
}

cgroup_version() {
    if [[ $(stat -fc %T /sys/fs/cgroup) == cgroup2fs ]]; then echo 2; else echo 1; fi
}

# The path below its mount point of this process's cgroup; of v1 in the hierarchy of a controller.
own_cgroup() { # CONTROLLER, or nothing for v2
    awk -F: -v c="${1:-}" '{
        n = split($2, names, ",")
        for (i = 1; i <= n; i++) if (names[i] == c || names[i] == "name=" c) { print $3; exit }
        if ($2 == c) { print $3; exit }
    }' /proc/self/cgroup
}

# Makes the node's root in each hierarchy, below our own cgroup, and lists them in $dir/cgroups.
make_cgroups() {
    local path controller
    if [[ $cgroups == 2 ]]; then
        say "this machine has cgroup v2, with which this script was never tried"
        path=/sys/fs/cgroup$(own_cgroup)
        path=${path%/}/cuvee-node-$$
        mkdir "$path"
        echo "$path" >"$dir/cgroups"
        return
    fi
    for controller in "${controllers[@]}"; do
        mountpoint -q "/sys/fs/cgroup/$controller" || fail "this machine has no cgroup v1 hierarchy $controller in /sys/fs/cgroup, which kubelet needs"
        path=/sys/fs/cgroup/$controller$(own_cgroup "$controller")
        path=${path%/}/cuvee-node-$$
        mkdir "$path"
        if [[ $controller == cpuset ]]; then
            cat "${path%/*}/cpuset.cpus" >"$path/cpuset.cpus"
            cat "${path%/*}/cpuset.mems" >"$path/cpuset.mems"
        fi
        echo "$path"
    done >"$dir/cgroups"
}

# Removes cgroups, the deepest first; those that are in use stay.
remove_cgroups() { # PATH...
    local path
    for path in "$@"; do
        [[ ! -d $path ]] || find "$path" -depth -type d -exec rmdir {} + 2>/dev/null || true
    done
}

# Those of nodes that were killed.
remove_stale_cgroups() {
    local path
    while IFS= read -r path; do
        [[ -d /proc/${path##*-} ]] || remove_cgroups "$path"
    done < <(find /sys/fs/cgroup -maxdepth 4 -type d -name 'cuvee-node-*' 2>/dev/null)
}

# The first /30 of 10.200.0.0/16 that this machine has no address in: .1 is this machine, .2 the node.
free_network() {
    local n
    for n in $(seq 0 255); do
        if ! ip -4 -o address | grep -q " 10\.200\.$n\."; then
            echo "10.200.$n"
            return
        fi
    done
    fail "no free network below 10.200.0.0/16"
}

# ---- Outside of the node

up() {
    [[ $EUID == 0 ]] || fail "this takes root: namespaces, cgroups, and mounts"
    [[ -x ${KUBEBUILDER_ASSETS:-}/kubelet ]] || fail "no kubelet in KUBEBUILDER_ASSETS=${KUBEBUILDER_ASSETS:-}: run make kube"
    [[ $# -ge 1 ]] || fail "usage: node.sh DIR [IMAGE.tar ...]"
    dir=$(realpath -m "$1")
    shift
    mkdir -p "$dir"
    [[ -z $(ls -A "$dir") ]] || fail "$dir is not empty"
    "$here/../need.sh" smoke >&2
    remove_stale_cgroups
    unpack containerd runc containernetworking-plugins
    mkdir -p "$dir"/{kubelet,containerd,cni,log,etc,lib-cni}
    CGO_ENABLED=0 go -C "$here/pause" build -trimpath -ldflags '-s -w' -o "$dir/pause-root/pause" .
    "$here/image.sh" "$dir/pause-root" cuvee.test/pause:1 "$dir/pause.tar" '["/pause"]'
    images=$(realpath "$dir/pause.tar" "$@")

    exec {lock}>"$cache/lock"
    flock "$lock"
    network=$(free_network)
    cgroups=$(cgroup_version)
    export root network images cgroups
    trap down EXIT
    trap 'exit 0' TERM INT
    make_cgroups
    mkfifo "$dir/go"
    # The node ends with unshare, and unshare with this script, however that ends.
    (
        while IFS= read -r path; do echo "$BASHPID" >"$path/cgroup.procs"; done <"$dir/cgroups"
        exec setpriv --pdeathsig KILL unshare --mount --pid --net --uts --ipc --cgroup --fork --kill-child --propagation private \
            bash "$here/node.sh" _inside "$dir"
    ) </dev/null >"$dir/log/node.log" 2>&1 {lock}>&- &
    node=$!
    # The other end of a veth pair goes with the node's network namespace.
    first=
    until [[ -n $first ]]; do
        sleep 0.05
        kill -0 "$node" 2>/dev/null || fail "the node ended at once: $(cat "$dir/log/node.log")"
        read -r first <"/proc/$node/task/$node/children" || true
    done
    ip link add "cuvee${network##*.}" type veth peer name eth0 netns "$first"
    ip address add "$network.1/30" dev "cuvee${network##*.}"
    ip link set "cuvee${network##*.}" up
    exec {lock}>&-
    echo >"$dir/go"

    until [[ -e $dir/ready ]]; do
        kill -0 "$node" 2>/dev/null || fail "the node ended: $(tail -n 5 "$dir"/log/*.log)"
        sleep 0.1
    done
    say "ready after $SECONDS s"
    echo "$dir/cluster/admin.kubeconfig"
    exec 1>&-
    if [[ -p /dev/stdin ]]; then
        exec {in}<&0
        setpriv --pdeathsig KILL cat <&"$in" >/dev/null &
        wait -n "$node" $! || true
    else
        wait "$node" || true
    fi
    [[ -e /proc/$node ]] || fail "the node ended: $(tail -n 5 "$dir"/log/*.log)"
}

down() {
    local code=$? tries
    trap - EXIT
    [[ -z ${first:-} ]] || kill -KILL "$first" 2>/dev/null || true
    [[ -z ${node:-} ]] || wait "$node" 2>/dev/null || true
    rmdir "${mountpoints[@]}" 2>/dev/null || true
    # The kernel takes a moment for what was in the node.
    for tries in $(seq 100); do
        mapfile -t left <"$dir/cgroups"
        remove_cgroups "${left[@]}"
        [[ -n $(ls -d "${left[@]}" 2>/dev/null) ]] || exit "$code"
        sleep 0.1
    done
    say "cgroups are left after $tries tries: ${left[*]}"
    exit 1
}

# ---- Inside of the node

mounts() {
    local controller
    # containerd and kubelet pass mounts on to pods.
    mount --make-rshared /
    mount -t proc proc /proc
    mount -t sysfs sysfs /sys
    if [[ $cgroups == 2 ]]; then
        mount -t cgroup2 cgroup2 /sys/fs/cgroup
        # A group with processes cannot give controllers to groups below it.
        mkdir /sys/fs/cgroup/node
        xargs -rn1 </sys/fs/cgroup/cgroup.procs >/sys/fs/cgroup/node/cgroup.procs || true
        sed 's/[^ ]*/+&/g' /sys/fs/cgroup/cgroup.controllers >/sys/fs/cgroup/cgroup.subtree_control
    else
        mount -t tmpfs -o mode=755 tmpfs /sys/fs/cgroup
        for controller in "${controllers[@]}"; do
            mkdir "/sys/fs/cgroup/$controller"
            mount -t cgroup -o "${controller/#systemd/none,name=systemd}" cgroup "/sys/fs/cgroup/$controller"
        done
    fi
    # Sockets, locks and network namespaces of our own.
    mount -t tmpfs -o mode=755 tmpfs /run
    mkdir -p /run/lock /run/netns "${mountpoints[@]}"
    mount --bind "$dir/log" /var/log
    mount --bind "$dir/kubelet" /var/lib/kubelet
    mount --make-rshared /var/lib/kubelet
    mount --bind "$dir/lib-cni" /var/lib/cni
}

net() {
    read -r _ <"$dir/go"
    ip link set lo up
    ip address add "$network.2/30" dev eth0
    ip link set eth0 up
    ip route add default via "$network.1"
    echo 1 >/proc/sys/net/ipv4/ip_forward
    # Without it a pod that asks a Service that it is part of gets its answer from the wrong address. Not every kernel has it.
    { echo 1 >/proc/sys/net/bridge/bridge-nf-call-iptables; } 2>/dev/null || true
    nft -f - <<END
table ip node {
    chain postrouting {
        type nat hook postrouting priority srcnat
        ip saddr 10.244.0.0/24 ip daddr != 10.244.0.0/24 oifname eth0 masquerade
    }
}
END
}

start() { # NAME COMMAND...
    local name=$1
    shift
    "$@" </dev/null >"$dir/log/$name.log" 2>&1 &
}

start_containerd() {
    local image socket=/run/containerd/containerd.sock
    cat >"$dir/etc/containerd.toml" <<END
version = 2
root = "$dir/containerd"
state = "/run/containerd"
[grpc]
  address = "$socket"
[plugins."io.containerd.internal.v1.opt"]
  path = "$dir/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "cuvee.test/pause:1"
  # Root may lack CAP_SYS_RESOURCE, as in a container. Then nobody may lower oom_score_adj, and no pod would start.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      BinaryName = "$root/usr/sbin/runc"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "$root/usr/lib/cni"
    conf_dir = "$dir/cni"
END
    cat >"$dir/cni/10-bridge.conflist" <<END
{"cniVersion": "1.0.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "dataDir": "/run/cni-ipam", "ranges": [[{"subnet": "10.244.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
END
    PATH=$root/usr/bin:$root/usr/sbin:$PATH start containerd "$root/usr/bin/containerd" --config "$dir/etc/containerd.toml"
    until "$root/usr/bin/ctr" -a "$socket" version >/dev/null 2>&1; do
        kill -0 $! || fail "containerd ended"
        sleep 0.1
    done
    while IFS= read -r image; do
        "$root/usr/bin/ctr" -a "$socket" -n k8s.io images import "$image" >/dev/null
    done <<<"$images"
}

start_kubelet() {
    local cluster=$dir/cluster
    echo "nameserver $network.1" >"$dir/etc/resolv.conf"
    cat >"$dir/etc/kubelet.yaml" <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
# It would refuse v1, which will be removed from Kubernetes one day.
failCgroupV1: false
cgroupDriver: cgroupfs
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
address: 0.0.0.0
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $cluster/pki/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: $cluster/pki/kubelet-node1.crt
tlsPrivateKeyFile: $cluster/pki/kubelet-node1.key
clusterDomain: cluster.local
resolvConf: $dir/etc/resolv.conf
volumePluginDir: $dir/etc/volume-plugins
# A test's disk may be nearly full.
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%, nodefs.inodesFree: 1%}
imageGCHighThresholdPercent: 99
imageGCLowThresholdPercent: 98
syncFrequency: 10s
nodeStatusUpdateFrequency: 5s
END
    start kubelet "$KUBEBUILDER_ASSETS/kubelet" --config="$dir/etc/kubelet.yaml" --kubeconfig="$cluster/kubelet-node1.kubeconfig" \
        --root-dir=/var/lib/kubelet --hostname-override=node1 --node-ip="$network.2" --v=2
    start kube-proxy "$KUBEBUILDER_ASSETS/kube-proxy" --kubeconfig="$cluster/kube-proxy.kubeconfig" --proxy-mode=nftables \
        --cluster-cidr=10.244.0.0/24 --hostname-override=node1 \
        --conntrack-max-per-core=0 --conntrack-tcp-timeout-established=0 --conntrack-tcp-timeout-close-wait=0
}

inside() {
    dir=$1
    mounts
    hostname node1
    net
    start kube-up "$KUBEBUILDER_ASSETS/kube-up" -dir "$dir/cluster" -address "$network.2" -node "node1=$network.2"
    controlplane=$!
    start_containerd
    until grep -q 'kube-up: ready' "$dir/log/kube-up.log"; do
        kill -0 "$controlplane" 2>/dev/null || fail "kube-up ended: $(cat "$dir/log/kube-up.log")"
        sleep 0.1
    done
    start_kubelet
    until "$KUBEBUILDER_ASSETS/kubectl" --kubeconfig="$dir/cluster/admin.kubeconfig" wait node node1 --for=condition=Ready --timeout=10s >/dev/null 2>&1; do
        kill -0 $! || fail "kube-proxy ended: $(tail -n 3 "$dir/log/kube-proxy.log")"
    done
    touch "$dir/ready"
    exec "$dir/pause-root/pause"
}

if [[ ${1:-} == _inside ]]; then
    inside "$2"
else
    up "$@"
fi
