#!/usr/bin/env bash
# A cluster of real nodes: on each containerd, kubelet and kube-proxy, and beside them a control plane of kube-up, all as processes of this
# machine.
#
#   KUBEBUILDER_ASSETS=$(make kube) tools/kube-node/node.sh [-n NODES] DIR [IMAGE.tar ...]
#   tools/kube-node/node.sh -c      only says whether this machine can have one
#   tools/kube-node/node.sh -r      only removes what is left of those that were killed
#
# DIR is new, gets all data and logs, and stays. When the nodes (node1, node2 ...; one if not told) are ready the path of the
# administrator's kubeconfig is printed, which works from this machine. The cluster runs until this script gets SIGINT or SIGTERM, or its
# standard input ends if that is a pipe. Nothing it started is left then, nor if it is killed.
#
# The control plane and each node have namespaces of their own (mount, pid, network, UTS, IPC, cgroup): all processes of a node end with the
# first one, whose id is in DIR/NODE/pid, and with them go its mounts, network devices and packet filters. Killing that one is what a power
# failure is; a line "start NODE" written to DIR/requests starts the node again, with the disk it had. The nodes see the files of this
# machine, so a volume of the type local can be any directory, and on all nodes it is the same.
#
# It takes root, and cgroup v1 or v2; with v2 it was never tried.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
cache=$(realpath -m "$here/../../.cache/kube-node")

# Where nodes have directories of their own in places that nobody can change.
mountpoints=(/var/lib/kubelet /var/lib/cni)
holds=()

say() { echo "node: $*" >&2; }
fail() {
    say "$*"
    exit 1
}

# shellcheck source=tools/kube-node/programs.sh
. "$here/programs.sh"
# shellcheck source=tools/kube-node/cgroups.sh
. "$here/cgroups.sh"
# shellcheck source=tools/kube-node/loops.sh
. "$here/loops.sh"

# Gives the control plane a network device, whose other end is this machine's, in the first /24 of 10.200.0.0/16 that is free: .1 is this
# machine, .2 the control plane, .11 the first node. Another cluster may look for one at the same time: who has made the device has it.
connect() {
    local n device
    for n in $(seq 0 255); do
        device=cuvee$n
        if ! ip -4 -o address | grep -q " 10\.200\.$n\." && ip link add "$device" type veth peer name eth0 netns "$control" 2>/dev/null; then
            network=10.200.$n
            ip address add "$network.1/24" dev "$device"
            ip link set "$device" up
            return
        fi
    done
    fail "no free network below 10.200.0.0/16"
}

# The mount points are shared by all clusters of this machine: who removed one would take the mounts of the others, too. So each cluster
# holds a lock on them while it is up, and only who has no company removes them.
hold_mountpoints() {
    local path fd
    for path in "${mountpoints[@]}"; do
        while true; do
            mkdir -p "$path"
            exec {fd}<"$path"
            flock -s "$fd"
            # Is it still there, or was it removed meanwhile?
            [[ ! /proc/self/fd/$fd -ef $path ]] || break
            exec {fd}<&-
        done
        holds+=("$fd")
    done
}

# Nothing of a cluster that was killed is left but empty directories.
remove_leftovers() {
    remove_stale_cgroups
    hold_mountpoints
    drop_mountpoints
}

drop_mountpoints() {
    local i
    for i in "${!holds[@]}"; do
        if flock -n -x "${holds[i]}"; then
            rmdir "${mountpoints[i]}" 2>/dev/null || true
        fi
    done
}

# The first process in namespaces of its own, with what inside.sh makes of them. The process that is its parent ends with us, however we
# end, and it with its parent.
spawn() { # NAME
    local own=$dir/$1 parent first=
    rm -f "$own/go" "$own/ready"
    mkfifo "$own/go"
    (
        exec {requests}>&-
        for fd in "${holds[@]}"; do exec {fd}<&-; done
        if [[ -e $own/cgroups ]]; then
            while IFS= read -r path; do echo "$BASHPID" >"$path/cgroup.procs"; done <"$own/cgroups"
        fi
        exec setpriv --pdeathsig KILL unshare --mount --pid --net --uts --ipc --cgroup --fork --kill-child --propagation private \
            bash "$here/inside.sh" "$dir" "$1"
    ) </dev/null >"$own/log/inside.log" 2>&1 &
    parent=$!
    parents[$1]=$parent
    until [[ -n $first ]]; do
        sleep 0.05
        kill -0 "$parent" 2>/dev/null || fail "$1 ended at once: $(cat "$own/log/inside.log")"
        read -r first <"/proc/$parent/task/$parent/children" || true
    done
    echo "$first" >"$own/pid"
}

# The bridge is the control plane's, so that it ends with it.
start_control() {
    spawn control
    control=$(<"$dir/control/pid")
    connect
    echo "$network" >"$dir/control/go"
}

start_node() { # NAME
    local own=$dir/$1 left=() in_control=(nsenter -t "$control" -n --)
    if [[ -e $own/cgroups ]]; then
        mapfile -t left <"$own/cgroups"
        remove_cgroups "${left[@]}"
        detach_lost_loops "$dir"
        # It goes with the other end, but not at once.
        "${in_control[@]}" ip link delete "$1" 2>/dev/null || true
    fi
    make_cgroups "$1" >"$own/cgroups"
    spawn "$1"
    # With the same address when it comes again, so that nobody has to find out.
    "${in_control[@]}" ip link add "$1" type veth peer name eth0 address "$(printf '02:00:00:00:00:%02x' "${1#node}")" netns "$(<"$own/pid")"
    "${in_control[@]}" ip link set "$1" master nodes up
    echo "$network" >"$own/go"
}

# What makes it impossible here, in one line.
check() {
    local controller
    [[ $EUID == 0 ]] || fail "this takes root: namespaces, cgroups, and mounts"
    command -v apt-cache >/dev/null || fail "this takes Debian or a relative: runc and the CNI plugins are taken from its packages"
    if [[ $cgroups == 2 ]]; then
        say "this machine has cgroup v2, with which this script was never tried"
        return
    fi
    for controller in "${controllers[@]}"; do
        mountpoint -q "/sys/fs/cgroup/$controller" || fail "this machine has no cgroup v1 hierarchy $controller in /sys/fs/cgroup, which kubelet needs"
    done
}

prepare() { # IMAGE...
    local name
    "$here/../need.sh" cluster >&2
    remove_stale_cgroups
    mkdir -p "$cache"
    exec 9>"$cache/lock"
    flock 9
    build_containerd
    unpack runc containernetworking-plugins
    exec 9>&-
    mkdir -p "$dir"/control/{log,etc}
    for name in "${names[@]}"; do
        mkdir -p "$dir/$name"/{kubelet,containerd,cni,log,etc,lib-cni}
    done
    CGO_ENABLED=0 go -C "$here/pause" build -trimpath -ldflags '-s -w' -o "$dir/pause-root/pause" .
    "$here/image.sh" "$dir/pause-root" cuvee.test/pause:1 "$dir/pause.tar" '["/pause"]'
    images=$(realpath "$dir/pause.tar" "$@")
    mkfifo "$dir/requests"
    exec {requests}<>"$dir/requests"
}

alive() { kill -0 "${parents[$1]}" 2>/dev/null; }

await_ready() {
    local name
    for name in "${names[@]}"; do
        until [[ -e $dir/$name/ready ]]; do
            alive control || fail "the control plane ended: $(tail -n 5 "$dir"/control/log/{inside,kube-up}.log)"
            alive "$name" || fail "$name ended: $(tail -n 5 "$dir/$name"/log/*.log)"
            sleep 0.1
        done
    done
}

# Does what is asked for, until it is to end.
serve() {
    local word name watched=
    if [[ -p /dev/stdin ]]; then
        exec {in}<&0
        setpriv --pdeathsig KILL cat <&"$in" >/dev/null &
        watched=$!
        exec {in}<&-
    fi
    while alive control; do
        [[ -z $watched ]] || kill -0 "$watched" 2>/dev/null || return 0
        read -r -t 0.5 word name <&"$requests" || continue
        if [[ $word != start || -z ${parents[$name]:-} ]]; then
            say "not understood: $word $name"
        elif alive "$name"; then
            say "$name runs already"
        else
            say "starting $name"
            start_node "$name"
        fi
    done
    fail "the control plane ended: $(tail -n 5 "$dir"/control/log/{inside,kube-up}.log)"
}

up() {
    local count=1 option
    cgroups=$(cgroup_version)
    while getopts cn:r option; do
        case $option in
        c)
            check
            exit
            ;;
        r)
            remove_leftovers
            exit
            ;;
        n) count=$OPTARG ;;
        *) fail "usage: node.sh [-n NODES] DIR [IMAGE.tar ...]" ;;
        esac
    done
    shift $((OPTIND - 1))
    [[ $# -ge 1 ]] || fail "usage: node.sh [-n NODES] DIR [IMAGE.tar ...]"
    [[ $count =~ ^[1-9]$ ]] || fail "-n $count: want a number of nodes, 1 to 9"
    check
    [[ -x ${KUBEBUILDER_ASSETS:-}/kubelet ]] || fail "no kubelet in KUBEBUILDER_ASSETS=${KUBEBUILDER_ASSETS:-}: run make kube"
    dir=$(realpath -m "$1")
    shift
    mkdir -p "$dir"
    [[ -z $(ls -A "$dir") ]] || fail "$dir is not empty"
    mapfile -t names < <(seq -f node%g "$count")
    prepare "$@"

    declare -gA parents=()
    trap down EXIT
    trap 'exit 0' TERM INT
    hold_mountpoints
    nodes=$count
    export root containerd images cgroups nodes
    start_control
    local name
    for name in "${names[@]}"; do start_node "$name"; done
    await_ready
    say "ready after $SECONDS s"
    echo "$dir/cluster/admin.kubeconfig"
    exec 1>&-
    serve
}

down() {
    local code=$? name left=()
    trap - EXIT
    for name in "${!parents[@]}"; do
        kill -KILL "$(<"$dir/$name/pid")" 2>/dev/null || true
        wait "${parents[$name]}" 2>/dev/null || true
    done
    drop_mountpoints
    detach_loops "$dir"
    rm -f "$dir/requests"
    mapfile -t left < <(cat "$dir"/node*/cgroups 2>/dev/null)
    remove_cgroups "${left[@]}" || code=1
    exit "$code"
}

up "$@"
