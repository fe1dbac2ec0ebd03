#!/usr/bin/env bash
# Builds images from the Dockerfile without a registry; prints the files, archives that ctr, docker and podman import.
#
#   tools/images/offline.sh [TARGET ...]      manager and runner if none is given
#
# The Dockerfile is used as it is. Its Debian base is made of Debian's packages by mmdebstrap, and its programs are built by this
# machine's Go. Alpine's and Arch Linux' packages are not at hand this way.
#
# It takes root and buildah, and no daemon. What it has made is kept in .cache/images; packages are asked for again when there are
# newer ones, or the Dockerfile has changed.
set -euo pipefail
cd "$(dirname "$0")/../.."
cache=$(pwd)/.cache/images
release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
base=localhost/debian-base

say() { echo "images: $*" >&2; }
fail() {
    say "$*"
    exit 1
}

[[ $EUID == 0 ]] || fail "this takes root: packages are set up as they are in an image"
[[ $# -gt 0 ]] || set -- manager runner
for target; do
    [[ $target == manager || $target == runner ]] || fail "there is no target $target to build without a registry: give manager or runner"
done

# Its own storage, so that no other images are touched. In the chroot a build needs no runtime, and has this machine's network.
build() { buildah --root "$cache/storage" --runroot "$cache/run" --storage-driver "$driver" "$@"; }

# Whose packages an image has: these versions, set up by this file.
versions() { { apt-cache show "$@" 2>/dev/null | sed -n 's/^Filename: //p' && cat "$0"; } | sha256sum | cut -c1-12; }

mkdir -p "$cache"
exec {lock}>"$cache/lock"
flock "$lock"
driver=overlay
[[ $(stat -fc %T "$cache") != overlayfs ]] || driver=vfs

make_base() {
    local tag
    tag=$base:$(versions base-files libc6 apt)
    if ! build inspect --type image "$tag" >/dev/null 2>&1; then
        say "making a Debian $release base (once)"
        mmdebstrap --quiet --variant=minbase --aptopt='APT::Sandbox::User "root"' "$release" "$cache/base.tar" >&2
        local c
        c=$(build from scratch)
        build add --quiet "$c" "$cache/base.tar" / >/dev/null
        build commit --quiet "$c" "$tag" >/dev/null
        build rm "$c" >/dev/null
        rm "$cache/base.tar"
    fi
    echo "$tag"
}

say "building the programs"
mkdir -p "$cache/programs/out"
CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$cache/programs/out/" ./cmd/cuvee-manager ./cmd/cuvee-runner

debian=$(make_base)
for target; do
    key=$( { cat Dockerfile "$0" "$cache/programs/out/cuvee-$target" && echo "$debian" &&
        versions qemu-system-x86 qemu-block-extra qemu-utils ovmf seabios swtpm; } | sha256sum | cut -c1-12)
    file=$cache/cuvee-$target-$key.tar
    if ! [[ -e $file ]]; then
        say "building the image $target"
        build bud --quiet --isolation chroot --network host --pull-never --layers \
            --build-context "build=$cache/programs" --build-arg "DEBIAN=$debian" --target "$target" -t "localhost/cuvee-$target" . >/dev/null
        rm -f "$cache/cuvee-$target"-*.tar
        build push --quiet "localhost/cuvee-$target" "docker-archive:$file.new:cuvee-$target:offline" >/dev/null
        mv "$file.new" "$file"
    fi
    echo "$file"
done
