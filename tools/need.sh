#!/usr/bin/env bash
# Installs the Debian packages that a make target needs and this machine lacks.
#
#   tools/need.sh demo|test|check ...
#
# What counts is whether the program or file is there, not which package it came from, so that a machine
# with a QEMU of its own is left alone. It says nothing when there is nothing to do.
set -euo pipefail

# One line a need: the targets that have it | what must be there (a command, or a path, which may be a
# pattern) | the Debian package that brings it | what it is for.
needs='
demo test       | qemu-system-x86_64                 | qemu-system-x86  | runs the virtual machines
demo test       | /usr/lib/*/qemu/block-curl.so      | qemu-block-extra | CD-ROM images from https addresses
demo test       | /usr/share/OVMF/OVMF_CODE*.fd      | ovmf             | UEFI firmware
demo test       | /usr/share/seabios/bios-256k.bin   | seabios          | BIOS firmware
demo test       | qemu-img                           | qemu-utils       | looks into disk images
test            | swtpm                              | swtpm            | the emulated TPM
test            | swtpm_setup                        | swtpm-tools      | prepares the emulated TPM
demo test       | /etc/ssl/certs/ca-certificates.crt | ca-certificates  | trusts the servers that Go modules come from
test            | gcc                                | gcc              | the race detector is built with cgo
test            | /usr/include/stdlib.h              | libc6-dev        | the race detector is built with cgo
check           | git                                | git              | finds generated files that changed
check           | shellcheck                         | shellcheck       | checks the shell scripts
'

here() { # COMMAND|PATTERN
    case $1 in
    /*) compgen -G "$1" >/dev/null ;;
    *) command -v "$1" >/dev/null ;;
    esac
}

packages=()
reasons=()
while IFS='|' read -r targets thing package reason; do
    read -r thing <<<"$thing"
    read -r package <<<"$package"
    for target in "$@"; do
        if [[ " $targets " == *" $target "* ]] && ! here "$thing"; then
            packages+=("$package")
            reasons+=("$(printf '  %-17s%s' "$package" "${reason# }")")
            break
        fi
    done
done < <(sed '/^$/d' <<<"$needs")

if ! command -v go >/dev/null; then
    echo "need.sh: Go is not on the PATH; get 1.26 or later from https://go.dev/dl/" >&2
    exit 1
fi
[[ ${#packages[@]} -gt 0 ]] || exit 0

cannot() { # WHY
    echo "need.sh: $1; please install: ${packages[*]}" >&2
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

echo "make $* needs what is not on this machine. Installing with apt-get, $how:"
printf '%s\n' "${reasons[@]}"

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
if ! apt install --no-install-recommends "${packages[@]}"; then
    cat "$log" >&2
    [[ $updated == yes ]] || cannot "the package servers cannot be reached"
    cannot "apt-get failed (see above)"
fi
