#!/usr/bin/env bash
# The cgroups that node.sh, which sources this file, gives to its nodes: one in each hierarchy, below our own.

# What kubelet wants to find of cgroup v1, the named hierarchy included. inside.sh mounts them.
controllers=(cpu cpuacct cpuset memory devices freezer blkio pids systemd)

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

# Makes a node's root in each hierarchy, and prints them.
make_cgroups() { # NODE
    local path controller name=cuvee-node-$1-$$
    if [[ $(cgroup_version) == 2 ]]; then
        path=/sys/fs/cgroup$(own_cgroup)
        path=${path%/}/$name
        mkdir "$path"
        echo "$path"
        return
    fi
    for controller in "${controllers[@]}"; do
        path=/sys/fs/cgroup/$controller$(own_cgroup "$controller")
        path=${path%/}/$name
        mkdir "$path"
        if [[ $controller == cpuset ]]; then
            cat "${path%/*}/cpuset.cpus" >"$path/cpuset.cpus"
            cat "${path%/*}/cpuset.mems" >"$path/cpuset.mems"
        fi
        echo "$path"
    done
}

# Removes cgroups, the deepest first, and waits a moment for the kernel to be done with what was in them.
remove_cgroups() { # PATH...
    local path tries
    [[ $# -gt 0 ]] || return 0
    for tries in $(seq 100); do
        for path in "$@"; do
            [[ ! -d $path ]] || find "$path" -depth -type d -exec rmdir {} + 2>/dev/null || true
        done
        [[ -n $(ls -d "$@" 2>/dev/null) ]] || return 0
        sleep 0.1
    done
    say "cgroups are left after $tries tries: $*"
    return 1
}

# Those of clusters that were killed: their name ends with the id of the process that made them.
remove_stale_cgroups() {
    local path
    while IFS= read -r path; do
        # One that nobody has waited for has no command line any more.
        grep -qs . "/proc/${path##*-}/cmdline" || remove_cgroups "$path"
    done < <(find /sys/fs/cgroup -maxdepth 4 -type d -name 'cuvee-node-*' 2>/dev/null)
}
