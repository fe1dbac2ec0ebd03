package qcow2

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
)

const (
	// offsetMask is where entries of tables have the offset of a cluster.
	offsetMask = 0x00fffffffffffe00
	// compressedCluster says that an entry of an L2 table is for a compressed cluster, and has its offset otherwise.
	compressedCluster = 1 << 62
)

// CheckComplete checks that an image of a length in bytes has all that its tables refer to: QEMU reads zeros where an image that was cut off has
// nothing any more. It reads the tables only.
func (h *Header) CheckComplete(ctx context.Context, image io.ReaderAt, length int64) error {
	if h.refcountOffset+8 > uint64(length) {
		return h.cutOff(length, h.refcountOffset)
	}
	l1, err := h.table(image, h.l1Offset, h.needed()*8, length)
	if err != nil {
		return err
	}
	for ; len(l1) > 0; l1 = l1[8:] {
		if err := ctx.Err(); err != nil {
			return err
		}
		at := binary.BigEndian.Uint64(l1) & offsetMask
		if at == 0 {
			continue
		}
		l2, err := h.table(image, at, 1<<h.ClusterBits, length)
		if err != nil {
			return err
		}
		if at, ok := h.outside(l2, uint64(length)); ok {
			return h.cutOff(length, at)
		}
	}
	return nil
}

// needed is how many entries of the L1 table describe the disk; others are for what belongs to snapshots.
func (h *Header) needed() uint64 {
	return (uint64(h.VirtualSize) + h.perL2() - 1) / h.perL2()
}

// table reads a table.
func (h *Header) table(image io.ReaderAt, at, size uint64, length int64) ([]byte, error) {
	if at > uint64(length) || size > uint64(length)-at {
		return nil, h.cutOff(length, at)
	}
	table := make([]byte, size)
	if _, err := image.ReadAt(table, int64(at)); err != nil {
		return nil, fmt.Errorf("read image: %w", err)
	}
	return table, nil
}

// outside finds a cluster that begins beyond the image's end. The last one may be shorter than others.
func (h *Header) outside(l2 []byte, length uint64) (uint64, bool) {
	// The more bits a cluster's size has, the fewer are left for the offset of a compressed one.
	compressedMask := uint64(1)<<(62-(h.ClusterBits-8)) - 1
	for ; len(l2) > 0; l2 = l2[1<<h.entryBits():] {
		entry := binary.BigEndian.Uint64(l2)
		at := entry & offsetMask
		if entry&compressedCluster != 0 {
			at = entry & compressedMask
		}
		if at >= length {
			return at, true
		}
	}
	return 0, false
}

func (h *Header) cutOff(length int64, at uint64) error {
	return fmt.Errorf("%w: the image has only %d bytes, but data at %d", ErrCorrupt, length, at)
}
