#!/usr/bin/env bash
# Builds a disk with Debian as it is, for tests of what a guest in earnest does: systemd, udev, cloud-init and the QEMU
# guest agent. tools/demo-guest is the small one, which has none of them.
#
#   tools/debian-guest/build.sh [DISK]
#
# The disk is .cache/debian/guest.raw if none is given: a GPT with an EFI system partition (systemd-boot, kernel, initramfs)
# and an ext4 file system with the label "system". It boots with UEFI. It is built again only when something in this directory
# has changed; a minute or two, and a hundred MB from the package sources. tools/need.sh gets what this needs. It takes root,
# as the packages are installed in a chroot; no loop device is used.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
disk=${1:-$here/../../.cache/debian/guest.raw}

suite=bookworm
esp_mib=64 root_mib=1400
# Nothing attacks this guest, and an emulated CPU has other worries.
cmdline="root=LABEL=system ro console=ttyS0 quiet mitigations=off random.trust_cpu=on memhp_default_state=online panic=5"

die() {
    echo "debian-guest: $*" >&2
    exit 1
}

digest=$(cd "$here" && find . -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum)
if [[ -e $disk && $(cat "$disk.inputs" 2>/dev/null) == "$digest" ]]; then
    echo "$disk is up to date"
    exit 0
fi
[[ $EUID -eq 0 ]] || die "$disk has to be made, which takes root: sudo $0"
for tool in mmdebstrap sfdisk mke2fs mformat mcopy; do
    command -v "$tool" >/dev/null || die "there is no $tool; tools/need.sh test-guest gets it"
done

mkdir -p "$(dirname "$disk")"
work=$(mktemp -d "$(dirname "$disk")/.debian-guest-XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
chmod 755 "$work"
root=$work/root image=$work/image

# The settings of the initramfs have to be there before the kernel makes one. Nothing shall start by the clock while a test looks
# at the guest.
mmdebstrap --mode=root --variant=minbase --quiet \
    --include="$(grep -v '^#' "$here/packages" | paste -sd,)" \
    --aptopt='APT::Install-Recommends "false"' \
    --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' \
    --dpkgopt=force-confold \
    --essential-hook="cp -r '$here/root/.' \"\$1\"" \
    "$suite" "$root"
chroot "$root" systemctl --quiet mask \
    apt-daily{,-upgrade}.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service fstrim.timer
# They are those of the machine that built this.
echo localhost >"$root/etc/hostname"
rm -f "$root/etc/resolv.conf"

# ---- The disk

esp=$work/esp
truncate -s "${esp_mib}M" "$esp"
mformat -i "$esp" -v BOOT ::
mmd -i "$esp" ::/EFI ::/EFI/BOOT ::/loader ::/loader/entries
mcopy -i "$esp" "$root/usr/lib/systemd/boot/efi/systemd-bootx64.efi" ::/EFI/BOOT/BOOTX64.EFI
mcopy -i "$esp" "$root"/boot/vmlinuz-* ::/vmlinuz
mcopy -i "$esp" "$root"/boot/initrd.img-* ::/initrd
printf 'default debian.conf\ntimeout 0\neditor no\nauto-entries no\nauto-firmware no\n' |
    mcopy -i "$esp" - ::/loader/loader.conf
printf 'title Debian\nlinux /vmlinuz\ninitrd /initrd\noptions %s\n' "$cmdline" |
    mcopy -i "$esp" - ::/loader/entries/debian.conf
rm -f "$root"/boot/vmlinuz-* "$root"/boot/initrd.img-*

system=$work/system
truncate -s "${root_mib}M" "$system"
mke2fs -q -t ext4 -L system -m 0 -E lazy_itable_init=0,lazy_journal_init=0 -J size=16 -d "$root" "$system"

# 1 MiB in front of the partitions and behind them.
truncate -s "$((esp_mib + root_mib + 2))M" "$image"
sfdisk -q "$image" <<EOF
label: gpt
start=1MiB, size=${esp_mib}MiB, type=uefi, name=boot
start=$((1 + esp_mib))MiB, size=${root_mib}MiB, type=linux, name=system
EOF
dd if="$esp" of="$image" bs=1M seek=1 conv=notrunc,sparse status=none
dd if="$system" of="$image" bs=1M seek=$((1 + esp_mib)) conv=notrunc,sparse status=none

# The stamp of an older disk must not outlive the disk that it describes.
rm -f "$disk.inputs"
mv "$image" "$disk"
echo "$digest" >"$disk.inputs"
echo "$disk is ready"
