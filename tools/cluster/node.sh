#!/usr/bin/env bash
# Does to a node of the cluster of make cluster what can happen to one:
#
#   tools/cluster/node.sh list
#   tools/cluster/node.sh kill NODE         as when its power fails: all its processes end at once, and tell nobody
#   tools/cluster/node.sh start NODE        and comes back: it boots, with the disk it had; waits until it is Ready
#   tools/cluster/node.sh disconnect NODE   its network is cut, and what runs there runs on
#   tools/cluster/node.sh connect NODE
#
# What a process had written, but not synced, is not lost, as it would be in truth: the machine that the nodes are on stays.
set -euo pipefail
top=$(realpath "$(dirname "$(realpath "$0")")/../..")
work=$(realpath -m "${CUVEE_CLUSTER:-$top/.cache/cluster}")
nodes=$work/nodes
patience=300 # seconds

fail() {
    echo "node: $*" >&2
    exit 1
}

await() { # WHAT COMMAND...
    local what=$1 end=$((SECONDS + patience))
    shift
    until "$@"; do
        [[ $SECONDS -lt $end ]] || fail "$what: not within $patience s"
        sleep 0.1
    done
}

gone() { [[ ! -d /proc/$1 ]]; }
ready() { [[ -e $nodes/$1/ready ]]; }

list() {
    local dir
    for dir in "$nodes"/node*; do
        if [[ -e $dir/pid ]]; then echo "${dir##*/} up"; else echo "${dir##*/} down"; fi
    done
}

kill_node() {
    local pid parent
    [[ -e $nodes/$1/pid ]] || fail "$1 is not up"
    pid=$(<"$nodes/$1/pid")
    parent=$(awk '/^PPid:/ {print $2}' "/proc/$pid/status")
    rm -f "$nodes/$1/ready"
    kill -KILL "$pid"
    await "$1 ends" gone "$parent"
    rm -f "$nodes/$1/pid"
}

start_node() {
    [[ ! -e $nodes/$1/pid ]] || fail "$1 is up"
    echo "start $1" >"$nodes/requests"
    await "$1 is ready" ready "$1"
}

# The bridge that all nodes are at is the control plane's.
link() { nsenter -t "$(<"$nodes/control/pid")" -n ip link set "$1" "$2"; }

command=${1:-} node=${2:-}
[[ -p $nodes/requests ]] || fail "there is no cluster: run make cluster"
if [[ $command == list && $# == 1 ]]; then
    list
    exit
fi
[[ $# == 2 && $node =~ ^node[1-9]$ && -d $nodes/$node ]] || fail "usage: node.sh list | kill NODE | start NODE | disconnect NODE | connect NODE"
case $command in
kill) kill_node "$node" ;;
start) start_node "$node" ;;
disconnect) link "$node" down ;;
connect) link "$node" up ;;
*) fail "$command: want list, kill, start, disconnect or connect" ;;
esac
