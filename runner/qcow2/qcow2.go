// Package qcow2 reads the header of disk images in QEMU's qcow2 format, and says which of them are safe to read that come
// from somewhere else: an image can name other files, which QEMU would open with the rights of the one who reads the image.
//
// The format is that of QEMU's docs/interop/qcow2.txt; the limits are those of its block/qcow2.c.
package qcow2

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// HeadSize is how many bytes of an image are enough for Parse: the header and its extensions are in the first cluster, and what
// matters of them comes early. Of an image that is shorter all bytes are enough.
const HeadSize = 64 << 10

// What is wrong with an image. Errors of this package wrap one of these.
var (
	// ErrBackingFile says that the image names another file: one with the content that it lacks, or one with all of its data.
	ErrBackingFile = errors.New("refers to another file")
	// ErrUnsupported says that the image is what we, or a QEMU that we know, do not read.
	ErrUnsupported = errors.New("not supported")
	// ErrCorrupt says that the image contradicts itself or the format.
	ErrCorrupt = errors.New("corrupt")
)

// magic begins every image, of version 1 (qcow) as well.
const magic = "QFI\xfb"

// The lengths of a header: of version 2, and the least of version 3.
const (
	headerV2 = 72
	headerV3 = 104
)

// Cluster sizes are powers of 2, from 512 bytes to 2 MiB.
const (
	minClusterBits = 9
	maxClusterBits = 21
	// subclusterBits is the least for images with subclusters (extended L2 entries).
	subclusterBits = 14
)

// maxL1 is the size in bytes of the largest table of tables that QEMU reads (QCOW_MAX_L1_SIZE).
const maxL1 = 32 << 20

// Bits of the incompatible features: who does not know one of them must not read the image.
const (
	featureDirty = 1 << iota
	featureCorrupt
	featureDataFile
	featureCompression
	featureSubclusters
	featuresKnown = 1<<iota - 1
)

// Types of header extensions.
const (
	extensionEnd           = 0
	extensionBackingFormat = 0xe2792aca
	extensionDataFile      = 0x44415441
	extensionEncryption    = 0x0537be77
)

// Ways to compress clusters.
const (
	compressionZlib = iota
	compressionZstd
)

// Header is what matters of an image's header.
type Header struct {
	Version uint32
	// VirtualSize is the size of the disk, in bytes.
	VirtualSize int64
	ClusterBits uint32

	l1Entries, l1Offset, refcountOffset uint64

	features uint64
}

// Is says whether data begins like an image, of any version.
func Is(data []byte) bool {
	return len(data) >= len(magic) && string(data[:len(magic)]) == magic
}

// Parse reads the header from the first bytes of an image, see HeadSize, and refuses what is not safe to read or not supported.
func Parse(data []byte) (*Header, error) {
	if !Is(data) {
		return nil, fmt.Errorf("%w: no qcow2 image", ErrUnsupported)
	}
	if len(data) < headerV2 {
		return nil, fmt.Errorf("%w: the header is cut off after %d bytes", ErrCorrupt, len(data))
	}
	be := binary.BigEndian
	h := &Header{
		Version:        be.Uint32(data[4:]),
		ClusterBits:    be.Uint32(data[20:]),
		l1Entries:      uint64(be.Uint32(data[36:])),
		l1Offset:       be.Uint64(data[40:]),
		refcountOffset: be.Uint64(data[48:]),
	}
	if h.Version != 2 && h.Version != 3 {
		return nil, fmt.Errorf("%w: version %d of the format, want 2 or 3", ErrUnsupported, h.Version)
	}
	// That comes before all else, so that nobody mistakes such an image for a damaged one.
	if be.Uint64(data[8:]) != 0 || be.Uint32(data[16:]) != 0 {
		return nil, fmt.Errorf("%w: it has a backing file", ErrBackingFile)
	}
	if crypt := be.Uint32(data[32:]); crypt != 0 {
		return nil, fmt.Errorf("%w: the image is encrypted", ErrUnsupported)
	}
	if bits := h.ClusterBits; bits < minClusterBits || bits > maxClusterBits {
		return nil, fmt.Errorf("%w: clusters of 2^%d bytes, want 2^%d to 2^%d", ErrCorrupt, bits, minClusterBits, maxClusterBits)
	}
	length := uint64(headerV2)
	if h.Version == 3 {
		var err error
		if length, err = h.parseV3(data); err != nil {
			return nil, err
		}
	}
	if err := h.checkExtensions(data, length); err != nil {
		return nil, err
	}
	if err := h.checkLayout(be.Uint64(data[24:])); err != nil {
		return nil, err
	}
	return h, nil
}

// parseV3 reads what version 3 adds, and returns how long the header is.
func (h *Header) parseV3(data []byte) (uint64, error) {
	if len(data) < headerV3 {
		return 0, fmt.Errorf("%w: the header is cut off after %d bytes", ErrCorrupt, len(data))
	}
	be := binary.BigEndian
	h.features = be.Uint64(data[72:])
	switch {
	case h.features&featureDataFile != 0:
		return 0, fmt.Errorf("%w: it has an external data file", ErrBackingFile)
	case h.features&^featuresKnown != 0:
		return 0, fmt.Errorf("%w: unknown incompatible features %#x", ErrUnsupported, h.features&^featuresKnown)
	case h.features&featureCorrupt != 0:
		return 0, fmt.Errorf("%w: the image is marked as corrupt", ErrCorrupt)
	}
	if order := be.Uint32(data[96:]); order > 6 {
		return 0, fmt.Errorf("%w: refcounts of 2^%d bits, want 2^6 at most", ErrCorrupt, order)
	}
	length := uint64(be.Uint32(data[100:]))
	if length < headerV3 || length%8 != 0 || length > uint64(len(data)) {
		return 0, fmt.Errorf("%w: a header of %d bytes", ErrCorrupt, length)
	}
	compression := byte(compressionZlib)
	if length > headerV3 {
		compression = data[headerV3]
	}
	if compression > compressionZstd {
		return 0, fmt.Errorf("%w: compression of type %d, want 0 (zlib) or 1 (zstd)", ErrUnsupported, compression)
	}
	if (compression != compressionZlib) != (h.features&featureCompression != 0) {
		return 0, fmt.Errorf("%w: compression of type %d against the incompatible features %#x", ErrCorrupt, compression, h.features)
	}
	return length, nil
}

// checkExtensions goes through the extensions that follow the header in the first cluster.
func (h *Header) checkExtensions(data []byte, at uint64) error {
	be := binary.BigEndian
	cluster := uint64(1) << h.ClusterBits
	for at+8 <= min(cluster, uint64(len(data))) {
		kind, length := be.Uint32(data[at:]), uint64(be.Uint32(data[at+4:]))
		at += 8
		switch kind {
		case extensionEnd:
			return nil
		case extensionBackingFormat:
			return fmt.Errorf("%w: it has the format of a backing file", ErrBackingFile)
		case extensionDataFile:
			return fmt.Errorf("%w: it names an external data file", ErrBackingFile)
		case extensionEncryption:
			return fmt.Errorf("%w: the image is encrypted", ErrUnsupported)
		}
		if length > cluster-at {
			return fmt.Errorf("%w: an extension of %d bytes is longer than the rest of its cluster", ErrCorrupt, length)
		}
		// Extensions are padded to a multiple of 8 bytes.
		at += (length + 7) &^ 7
	}
	switch {
	case at+8 > cluster:
		return nil
	case len(data) >= HeadSize:
		return fmt.Errorf("%w: extensions of more than %d bytes", ErrUnsupported, HeadSize)
	default:
		return fmt.Errorf("%w: the header's extensions are cut off", ErrCorrupt)
	}
}

// checkLayout checks the disk's size against the tables that describe it.
func (h *Header) checkLayout(size uint64) error {
	bits := h.ClusterBits
	if h.features&featureSubclusters != 0 && bits < subclusterBits {
		return fmt.Errorf("%w: subclusters in clusters of 2^%d bytes, want 2^%d or more", ErrCorrupt, bits, subclusterBits)
	}
	if h.l1Entries*8 > maxL1 {
		return fmt.Errorf("%w: an L1 table of %d bytes, want %d at most", ErrCorrupt, h.l1Entries*8, maxL1)
	}
	// What one entry of the L1 table stands for is less than 2^42 bytes, so that this does not overflow.
	if h.l1Entries*h.perL2() < size {
		return fmt.Errorf("%w: an L1 table of %d entries is too small for a disk of %d bytes", ErrCorrupt, h.l1Entries, size)
	}
	cluster := uint64(1) << bits
	if h.l1Offset%cluster != 0 || h.refcountOffset%cluster != 0 || h.l1Entries > 0 && h.l1Offset == 0 || h.refcountOffset == 0 {
		return fmt.Errorf("%w: a table is not at the beginning of a cluster", ErrCorrupt)
	}
	h.VirtualSize = int64(size)
	if h.VirtualSize < 0 {
		return fmt.Errorf("%w: a disk of %d bytes", ErrCorrupt, size)
	}
	return nil
}

// entryBits says how large an entry of an L2 table is: 2^3 bytes, or 2^4.
func (h *Header) entryBits() uint32 {
	if h.features&featureSubclusters != 0 {
		return 4
	}
	return 3
}

// perL2 is how many bytes of the disk an L2 table describes. It has the size of a cluster.
func (h *Header) perL2() uint64 { return 1 << (2*h.ClusterBits - h.entryBits()) }
