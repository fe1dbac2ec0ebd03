#!/usr/bin/env bash
# Builds what the README's quick start needs, bin/cuvee and three images, and loads the images into a cluster of this machine.
#
#   tools/images/load.sh kind|k3s
#
# The images are cuvee-manager, cuvee-runner and cuvee-demo-disk, with the tag quickstart. The last one is the disk of the demo's guest, in
# a container image. The first two are built by docker; a machine with k3s and no docker gets those of tools/images/offline.sh.
set -euo pipefail
cd "$(dirname "$0")/../.."
cluster=${1:-}
tag=quickstart
cache=.cache/quickstart

fail() {
    echo "load: $*" >&2
    exit 1
}

[[ $cluster == kind || $cluster == k3s ]] || fail "usage: load.sh kind|k3s"
command -v "$cluster" >/dev/null || fail "$cluster is not on the PATH"

k3s_ctr() {
    local root=()
    [[ $EUID == 0 ]] || root=(sudo)
    "${root[@]}" k3s ctr images "$@"
}

load() { # ARCHIVE
    case $cluster in
    kind) kind load image-archive "$1" ;;
    k3s) k3s_ctr import "$1" ;;
    esac
}

docker=no
if docker info >/dev/null 2>&1; then docker=yes; fi
[[ $docker == yes || $cluster == k3s ]] || fail "docker does not work here"

mkdir -p "$cache" .cache/demo
echo "load: building bin/cuvee and a guest's disk"
go build -o bin/cuvee ./cmd/cuvee
go run ./tools/demo-guest -o .cache/demo/guest.raw
bin/cuvee image build .cache/demo/guest.raw -o "$cache/disk.tar" --name "cuvee-demo-disk:$tag"
load "$cache/disk.tar"

if [[ $docker == yes ]]; then
    tools/images/build.sh "$tag"
    docker save -o "$cache/images.tar" "cuvee-manager:$tag" "cuvee-runner:$tag"
    load "$cache/images.tar"
    exit
fi
tools/need.sh images-offline
for target in manager runner; do
    load "$(tools/images/offline.sh "$target")"
    # containerd knows it by a longer name.
    name=$(k3s_ctr ls -q "name~=\"/cuvee-$target:offline\$\"")
    k3s_ctr tag --force "$name" "${name%offline}$tag"
done
