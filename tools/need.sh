#!/usr/bin/env bash
# Installs the Debian packages that a make target needs and this machine lacks.
#
#   tools/need.sh demo|test|test-guest|cluster|e2e|images-offline|check|bench-libvirt ...
#
# What counts is whether the program or file is there, not which package it came from, so that a machine
# with a QEMU of its own is left alone. It says nothing when there is nothing to do.
#
# A new machine may not even have the lists of what Debian offers. The demo's guest is made from packages
# that are only downloaded, so these lists are a need, too.
set -euo pipefail

# One line a need: the targets that have it | what must be there (a command; a path, which may be a pattern;
# or apt:PACKAGE, known to apt) | the Debian package that brings it | what it is for.
needs() {
    cat <<'END'
demo test       | qemu-system-x86_64                 | qemu-system-x86  | runs the virtual machines
demo test       | /usr/lib/*/qemu/block-curl.so      | qemu-block-extra | CD-ROM images from https addresses
demo test       | /usr/share/OVMF/OVMF_CODE*.fd      | ovmf             | UEFI firmware
demo test       | /usr/share/seabios/bios-256k.bin   | seabios          | BIOS firmware
test            | zstd                               | zstd             | disks that are compressed with it
test            | xz                                 | xz-utils         | disks that are compressed with it
test            | mke2fs                             | e2fsprogs        | a device with a file system
demo test       | qemu-img                           | qemu-utils       | looks into disk images
demo test e2e   | apt:linux-image-cloud-amd64        | (package lists)  | the demo's guest is made from Debian packages
test            | swtpm                              | swtpm            | the emulated TPM
test            | swtpm_setup                        | swtpm-tools      | prepares the emulated TPM
demo test       | /etc/ssl/certs/ca-certificates.crt | ca-certificates  | trusts the servers that Go modules come from
test e2e        | /usr/lib/*/girepository-1.0/SpiceClientGLib-2.0.typelib | gir1.2-spiceclientglib-2.0 | a SPICE client, as remote-viewer is one
test e2e        | /usr/lib/python3/dist-packages/gi/__init__.py | python3-gi | lets a script use it
test            | gcc                                | gcc              | the race detector is built with cgo
test            | /usr/include/stdlib.h              | libc6-dev        | the race detector is built with cgo
test-guest      | mmdebstrap                         | mmdebstrap       | puts the Debian guest together
test-guest      | /usr/share/keyrings/debian-archive-keyring.gpg | debian-archive-keyring | trusts Debian's packages
test-guest      | sfdisk                             | fdisk            | partitions the Debian guest's disk
test-guest      | mke2fs                             | e2fsprogs        | makes its file system
test-guest      | mcopy                              | mtools           | fills its EFI system partition
bench-libvirt   | libvirtd                           | libvirt-daemon   | what the runner is compared with
bench-libvirt   | /usr/lib/*/libvirt/connection-driver/libvirt_driver_qemu.so | libvirt-daemon-driver-qemu | its driver for QEMU
bench-libvirt   | virsh                              | libvirt-clients  | its command line
cluster         | apt:runc                           | (package lists)  | runc and the CNI plugins are unpacked from Debian packages
cluster         | nft                                | nftables         | the node's Services
cluster         | ip                                 | iproute2         | the node's network
cluster         | setpriv                            | util-linux       | ends the nodes with the test
cluster e2e     | curl                               | curl             | reads the console, and asks kubelet how it is
cluster images-offline | mmdebstrap                    | mmdebstrap       | makes the Debian base of images
cluster images-offline | buildah                       | buildah          | builds images from the Dockerfile
cluster         | losetup                            | mount            | block volumes of the nodes
e2e             | python3                            | python3          | runs the SPICE client, and counts Events
check           | git                                | git              | finds generated files that changed
check           | shellcheck                         | shellcheck       | checks the shell scripts
END
}

here() { # COMMAND|PATTERN|apt:PACKAGE
    case $1 in
    apt:*) apt-cache show "${1#apt:}" >/dev/null 2>&1 ;;
    /*) compgen -G "$1" >/dev/null ;;
    *) command -v "$1" >/dev/null ;;
    esac
}

targets="$*"
packages=()
missing=() # each with its reason
while IFS='|' read -r who thing package reason; do
    read -r thing <<<"$thing"
    read -r package <<<"$package"
    for target in "$@"; do
        if [[ " $who " == *" $target "* ]] && ! here "$thing"; then
            missing+=("$(printf '%-16s %s' "$package" "${reason# }")")
            [[ $package == \(* ]] || packages+=("$package")
            break
        fi
    done
done < <(needs)

if ! command -v go >/dev/null; then
    echo "need.sh: Go is not on the PATH; get 1.26 or later from https://go.dev/dl/" >&2
    exit 1
fi
[[ ${#missing[@]} -gt 0 ]] || exit 0

cannot() { # WHY
    local please="run apt-get update, on Debian or a relative"
    [[ ${#packages[@]} -eq 0 ]] || please="install: ${packages[*]}"
    echo "need.sh: make $targets lacks something, and $1; please $please" >&2
    exit 1
}

command -v apt-get >/dev/null || cannot "there is no apt-get here"

as_root=()
how="as root"
if [[ $EUID -ne 0 ]]; then
    command -v sudo >/dev/null || cannot "installing takes root or sudo"
    as_root=(sudo)
    how="with sudo"
    # Without a terminal nobody can type a password.
    if ! [[ -t 0 ]]; then
        sudo -n true 2>/dev/null || cannot "sudo asks for a password and there is no terminal"
    fi
fi

echo "make $targets needs what is not on this machine. Getting it with apt-get, $how:"
printf '  %s\n' "${missing[@]}"

log=$(mktemp)
trap 'rm -f "$log"' EXIT

apt() {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y \
        -o DPkg::Lock::Timeout=300 -o Acquire::Retries=2 -o Acquire::http::Timeout=30 \
        "$@" </dev/null >>"$log" 2>&1
}

# One package source that does not answer need not be the one that counts: install decides.
updated=yes
apt -o APT::Update::Error-Mode=any update || updated=no
if [[ ${#packages[@]} -gt 0 ]]; then
    apt install --no-install-recommends "${packages[@]}" && exit 0
elif [[ $updated == yes ]]; then
    exit 0
fi
cat "$log" >&2
[[ $updated == yes ]] || cannot "apt-get update failed (see above; is there a network?)"
cannot "apt-get failed (see above)"
