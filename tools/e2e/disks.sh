#!/usr/bin/env bash
# Builds the images of disks that guests of the tests have; prints the files, archives that ctr, docker and podman import:
#
#   cuvee.test/demo-disk:e2e     the disk of the demo's guest
#   cuvee.test/agent-disk:e2e    an archive with QEMU's guest agent, as a disk
set -euo pipefail
cd "$(dirname "$0")/../.."
work=.cache/e2e
demo=.cache/demo

mkdir -p "$work" "$demo"
go build -o bin/ ./cmd/cuvee
go run ./tools/demo-guest -o "$demo/guest.raw" -agent "$demo/agent.cpio" >&2
disk() { # FILE NAME
    # The file's name is that of the disk in the image.
    ln -sf "$(realpath "$1")" "$work/$2.raw"
    bin/cuvee image build "$work/$2.raw" -o "$work/$2.tar" --name "cuvee.test/$2:e2e" >&2
    realpath "$work/$2.tar"
}
disk "$demo/guest.raw" demo-disk
disk "$demo/agent.cpio" agent-disk
