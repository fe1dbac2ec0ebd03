#!/usr/bin/env bash
# What happens in the namespaces that node.sh, and nothing else, starts this in: it becomes the control plane, or a node.
#
#   inside.sh DIR control|nodeN
#
# Of node.sh's variables it has: nodes, cgroups, root, containerd and images.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
# shellcheck source=tools/kube-node/cgroups.sh
. "$here/cgroups.sh"
: "${nodes:?}" "${cgroups:?}" "${root:?}" "${containerd:?}" "${images:?}"
dir=$1 name=$2
own=$dir/$name
number=${name#node}

say() { echo "$name: $*" >&2; }
fail() {
    say "$*"
    exit 1
}

start() { # PROGRAM COMMAND...
    local program=$1
    shift
    "$@" </dev/null >"$own/log/$program.log" 2>&1 &
}

kubectl() { "$KUBEBUILDER_ASSETS/kubectl" --kubeconfig="$dir/cluster/admin.kubeconfig" "$@"; }

# Waits until node.sh has given us a network device, and says what network it is in: 10.200.0, for instance.
await_device() {
    read -r network <"$own/go"
    ip link set lo up
}

# ---- The control plane

# The network of the cluster is a bridge here, so that it ends with us: node.sh's machine and all nodes have an end of theirs in it.
bridge() {
    local i
    ip link add nodes type bridge
    ip link set eth0 master nodes up
    ip address add "$network.2/24" dev nodes
    ip link set nodes up
    ip route add default via "$network.1"
    for i in $(seq "$nodes"); do
        ip route add "10.244.$i.0/24" via "$network.$((10 + i))"
    done
}

# Who wrote what is kept in a log: what a VM costs the API server is counted there.
audit_policy() {
    cat >"$own/etc/audit.yaml" <<'END'
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
  - {level: None, verbs: [get, list, watch]}
  - {level: None, namespaces: [kube-node-lease]}
  - {level: Metadata}
END
}

control() {
    local i arguments=()
    mount -t proc proc /proc
    mount -t sysfs sysfs /sys
    await_device
    bridge
    audit_policy
    for i in $(seq "$nodes"); do
        arguments+=(-node "node$i=$network.$((10 + i))")
    done
    # A node that is lost shall be noticed soon: the stock 50 s are long for who waits. Nodes report every 4 s, see nodeLeaseDurationSeconds.
    exec "$KUBEBUILDER_ASSETS/kube-up" -dir "$dir/cluster" -address "$network.2" "${arguments[@]}" \
        -controller-manager-arg --node-monitor-grace-period=16s -controller-manager-arg --node-monitor-period=2s \
        -apiserver-arg "--audit-policy-file=$own/etc/audit.yaml" -apiserver-arg "--audit-log-path=$own/log/audit.log" \
        -apiserver-arg --audit-log-maxsize=200 -apiserver-arg --audit-log-maxbackup=1 2>"$own/log/kube-up.log"
}

# ---- A node

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
    mkdir -p /run/lock /run/netns
    mount --bind "$own/log" /var/log
    mount --bind "$own/kubelet" /var/lib/kubelet
    mount --make-rshared /var/lib/kubelet
    mount --bind "$own/lib-cni" /var/lib/cni
}

net() {
    local i
    ip address add "$network.$((10 + number))/24" dev eth0
    ip link set eth0 up
    ip route add default via "$network.1"
    for i in $(seq "$nodes"); do
        [[ $i == "$number" ]] || ip route add "10.244.$i.0/24" via "$network.$((10 + i))"
    done
    echo 1 >/proc/sys/net/ipv4/ip_forward
    # Without it a pod that asks a Service that it is part of gets its answer from the wrong address. Not every kernel has it.
    { echo 1 >/proc/sys/net/bridge/bridge-nf-call-iptables; } 2>/dev/null || true
    nft -f - <<END
table ip node {
    chain postrouting {
        type nat hook postrouting priority srcnat
        ip saddr 10.244.$number.0/24 ip daddr != 10.244.0.0/16 oifname eth0 masquerade
    }
}
END
}

start_containerd() {
    local image socket=/run/containerd/containerd.sock
    cat >"$own/etc/containerd.toml" <<END
version = 3
root = "$own/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.nri.v1.nri"]
[grpc]
  address = "$socket"
[plugins."io.containerd.internal.v1.opt"]
  path = "$own/opt"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "cuvee.test/pause:1"
[plugins."io.containerd.cri.v1.runtime"]
  # Root may lack CAP_SYS_RESOURCE, as in a container. Then nobody may lower oom_score_adj, and no pod would start.
  restrict_oom_score_adj = true
  # A pod that is not root's can use its block volumes, and the devices of device plugins.
  device_ownership_from_security_context = true
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      BinaryName = "$root/usr/sbin/runc"
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["$root/usr/lib/cni"]
    conf_dir = "$own/cni"
END
    cat >"$own/cni/10-bridge.conflist" <<END
{"cniVersion": "1.0.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "dataDir": "/run/cni-ipam", "ranges": [[{"subnet": "10.244.$number.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
END
    PATH=$containerd:$root/usr/sbin:$PATH start containerd "$containerd/containerd" --config "$own/etc/containerd.toml"
    until "$containerd/ctr" -a "$socket" version >/dev/null 2>&1; do
        kill -0 $! || fail "containerd ended"
        sleep 0.1
    done
    # A node that was killed has them already.
    [[ ! -e $own/loaded ]] || return 0
    while IFS= read -r image; do
        "$containerd/ctr" -a "$socket" -n k8s.io images import "$image" >/dev/null
    done <<<"$images"
    touch "$own/loaded"
}

start_kubelet() {
    local cluster=$dir/cluster
    echo "nameserver $network.1" >"$own/etc/resolv.conf"
    cat >"$own/etc/kubelet.yaml" <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
# It would refuse v1, which will be removed from Kubernetes one day.
failCgroupV1: false
cgroupDriver: cgroupfs
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
address: 0.0.0.0
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $cluster/pki/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: $cluster/pki/kubelet-$name.crt
tlsPrivateKeyFile: $cluster/pki/kubelet-$name.key
clusterDomain: cluster.local
resolvConf: $own/etc/resolv.conf
volumePluginDir: $own/etc/volume-plugins
# A test's disk may be nearly full.
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%, nodefs.inodesFree: 1%}
imageGCHighThresholdPercent: 99
imageGCLowThresholdPercent: 98
syncFrequency: 10s
nodeStatusUpdateFrequency: 5s
# It is renewed in a quarter of that.
nodeLeaseDurationSeconds: 16
END
    start kubelet "$KUBEBUILDER_ASSETS/kubelet" --config="$own/etc/kubelet.yaml" --kubeconfig="$cluster/kubelet-$name.kubeconfig" \
        --root-dir=/var/lib/kubelet --hostname-override="$name" --node-ip="$network.$((10 + number))" --v=2
    kubelet=$!
    start kube-proxy "$KUBEBUILDER_ASSETS/kube-proxy" --kubeconfig="$cluster/kube-proxy.kubeconfig" --proxy-mode=nftables \
        --cluster-cidr=10.244.0.0/16 --hostname-override="$name" \
        --conntrack-max-per-core=0 --conntrack-tcp-timeout-established=0 --conntrack-tcp-timeout-close-wait=0
    proxy=$!
}

# A node that comes back is Ready by what it said before, until kubelet works.
kubelet_works() { curl -fs --max-time 5 http://127.0.0.1:10248/healthz >/dev/null; }

node() {
    mounts
    hostname "$name"
    await_device
    net
    start_containerd
    until grep -qs 'kube-up: ready' "$dir/control/log/kube-up.log"; do sleep 0.1; done
    start_kubelet
    until kubelet_works && kubectl wait "node/$name" --for=condition=Ready --timeout=10s >/dev/null 2>&1; do
        kill -0 "$kubelet" 2>/dev/null || fail "kubelet ended: $(tail -n 3 "$own/log/kubelet.log")"
        kill -0 "$proxy" 2>/dev/null || fail "kube-proxy ended: $(tail -n 3 "$own/log/kube-proxy.log")"
        sleep 0.1
    done
    touch "$own/ready"
    exec "$dir/pause-root/pause"
}

case $name in
control) control ;;
*) node ;;
esac
