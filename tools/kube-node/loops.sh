#!/usr/bin/env bash
# The loop devices of block volumes, for node.sh and tools/cluster, which source this file.
#
# A volume's own device has a file in the cluster's directory. While a pod uses it, kubelet has a second one, whose file is a name of the
# first one in the node's mount namespace: it holds the device, so that nobody detaches it meanwhile. When the node is killed the second one
# stays, and the path of its file is "/", as the mount is gone. Which one it belongs to is told by the inode of its file alone.

# Prints DEVICE and FILE of those that kubelet has for volumes in a directory.
kubelet_loops() { # DIRECTORY
    local name inode number device file
    while read -r name file; do
        [[ $file == "$1/"* ]] || continue
        inode=$(stat -c '%i %Hd:%Ld' "$name")
        while read -r name number device file; do
            [[ "$number $device" != "$inode" ]] || echo "$name $file"
        done < <(losetup -nl -O NAME,BACK-INO,BACK-MAJ:MIN,BACK-FILE)
    done < <(losetup -nl -O NAME,BACK-FILE)
}

# Detaches what a node that was killed has left, as its next boot would.
detach_lost_loops() { # DIRECTORY
    local name file
    while read -r name file; do
        [[ $file != / ]] || losetup -d "$name" || true
    done < <(kubelet_loops "$1")
}

# Detaches them all, when no node is left.
detach_loops() { # DIRECTORY
    local name file
    while read -r name _; do losetup -d "$name" || true; done < <(kubelet_loops "$1")
    while read -r name file; do
        [[ $file != "$1/"* ]] || losetup -d "$name" || true
    done < <(losetup -nl -O NAME,BACK-FILE)
}
