#!/usr/bin/env bash
# Makes an image of the runner from this checkout and Debian's packages, for tests; prints the file, an archive that ctr imports.
#
#   tools/kube-node/runner-image.sh NAME:TAG
#
# The packages are unpacked and not set up, so it needs no root's work and no daemon. They are kept in .cache/runner-image, by their
# versions; the image is made anew when they or the runner change.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
top=$(realpath "$here/../..")
cache=$top/.cache/runner-image
name=$1
cd "$top"

# QEMU and what the runner starts or reads: firmware, the TPM, CD-ROM images on the web, the time zones of a guest's clock.
packages=(qemu-system-x86 qemu-block-extra ovmf seabios swtpm swtpm-tools ca-certificates tzdata)

mkdir -p "$cache"
exec {lock}>"$cache/lock"
flock "$lock"

key=$( (apt-cache show "${packages[@]}" 2>/dev/null | sed -n 's/^Filename: //p' && cat "$0") | sha256sum | cut -c1-12)
rootfs=$cache/root-$key
if ! [[ -d $rootfs ]]; then
    echo "runner-image: unpacking ${packages[*]} and what they need (once)" >&2
    rm -rf "$cache"/root-* "$cache/new"
    include=$(IFS=, && echo "${packages[*]}")
    # shellcheck disable=SC2016 # $1 is the hook's
    mmdebstrap --quiet --variant=extract --include="$include" --skip=check/empty \
        --setup-hook='for d in bin sbin lib; do mkdir -p "$1/usr/$d"; ln -s "usr/$d" "$1/$d"; done; mkdir -p "$1/usr/lib64"; ln -s usr/lib64 "$1/lib64"' \
        "$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)" "$cache/new" >&2
    rm -rf "$cache"/new/usr/share/{doc,man,locale,info,lintian} "$cache"/new/var/{lib,cache,log} "$cache"/new/{dev,boot,home,media,mnt,opt,srv}
    # Made by a script of its package, which did not run.
    mkdir -p "$cache/new/etc/ssl/certs"
    find "$cache/new/usr/share/ca-certificates" -name '*.crt' -print0 | sort -z | xargs -0 cat >"$cache/new/etc/ssl/certs/ca-certificates.crt"
    echo 'runner:x:10777:10777::/:/usr/sbin/nologin' >"$cache/new/etc/passwd"
    echo 'runner:x:10777:' >"$cache/new/etc/group"
    # Where kubelet mounts volumes: the root file system is read only.
    mkdir -p "$cache"/new/{dev,proc,sys,run/cuvee,tmp,etc/opt/vmrunner,var/local/vm-data,var/local/vmop-image-repository}
    mv "$cache/new" "$rootfs"
fi

CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$cache/cuvee-runner" ./cmd/cuvee-runner
install -D -m 755 "$cache/cuvee-runner" "$rootfs/usr/bin/cuvee-runner"
digest=$( (echo "$key $name" && cat "$cache/cuvee-runner" "$here/image.sh") | sha256sum | cut -c1-12)
if ! [[ -e $cache/$digest.tar ]]; then
    rm -f "$cache"/*.tar
    "$here/image.sh" "$rootfs" "$name" "$cache/$digest.tar" '["/usr/bin/cuvee-runner"]'
fi
echo "$cache/$digest.tar"
