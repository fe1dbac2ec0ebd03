#!/usr/bin/env bash
# Measures how a disk is filled with an image (runner/content). Prints a line "figure NAME VALUE UNIT" for each figure:
#
#   import.raw.vs_cp                  the time to fill a file with a raw image of 2 GiB, half of which is holes, over that of "cp --sparse=always"; the images
#                                     are in memory (tmpfs), so that no disk is measured; in turns, the median of the ratios
#   import.qcow2.vs_qemu_img          the same with a qcow2 image, over "qemu-img convert"
#   import.raw.synced.vs_cp           both on a disk, and the other programs followed by "sync FILE", as an import waits until all is on the storage
#   import.qcow2.synced.vs_qemu_img
#   ... .ms, ... .other.ms            the medians of both sides
#   import.rss.FORMAT.mib             the most memory that a process has that fills a disk of 8 GiB (xz: 1 GiB) from a file of that format, or its qemu-img
#   import.rss.mib                    the largest of these
#
#   bench/import.sh [-n PAIRS] [-m DIRECTORY] [-d DIRECTORY]
#
#   -n  how often each way is measured, 7 if not given
#   -m  a directory in memory, /dev/shm
#   -d  one on a disk, that for temporary files
#
# The machine should have nothing else to do.
set -euo pipefail
cd "$(dirname "$0")"

pairs=7 memory=/dev/shm disk=${TMPDIR:-/tmp}
while getopts n:m:d: option; do
    case $option in
    n) pairs=$OPTARG ;;
    m) memory=$OPTARG ;;
    d) disk=$OPTARG ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
if [[ $# -gt 0 ]]; then
    echo "import.sh: unexpected argument: $1" >&2
    exit 2
fi

root=$(cd .. && pwd)
mkdir -p "$root/.cache/bench"
CGO_ENABLED=0 go build -trimpath -o "$root/.cache/bench/" ./import
"$root/.cache/bench/import" -memory "$memory" -disk "$disk" -pairs "$pairs"
