package content

import (
	"encoding/json"
	"strings"
)

// sectorSize is how much of a device is written in one piece, whatever happens: that has the header, and what replaces it last.
const sectorSize = 512

// headSize is how much of the begin of a device is kept back until all else is there.
const headSize = 4096

// headerMagic begins a device that is being filled.
const headerMagic = "CUVEE IMPORT, UNFINISHED\n"

// header is what a device that is being filled has in its first sector, after the magic and as a line of JSON: for who looks at it.
type header struct {
	// Version is that of this way to fill a device. A later one that does it otherwise starts over as well.
	Version int    `json:"version"`
	Source  string `json:"source"`
}

// maxName is how much of a source's name is kept. With it the sector has room, however it is encoded, and never the end of a boot sector.
const maxName = 60

// encode returns the sector.
func (h header) encode() []byte {
	name := []rune(strings.ToValidUTF8(h.Source, "?"))
	h.Source = string(name[:min(len(name), maxName)])
	line, err := json.Marshal(h)
	if err != nil {
		// It has but a number and a string.
		panic(err)
	}
	sector := make([]byte, sectorSize)
	copy(sector[copy(sector, headerMagic):], append(line, '\n'))
	return sector
}

// isHeader says whether a device that begins with a sector is being filled.
func isHeader(sector []byte) bool { return strings.HasPrefix(string(sector), headerMagic) }

// errUnfinished refuses what was read of a device that was being filled. On another device it would be taken for that one's own header at the
// next start, and what the guest has written since would be lost.
var errUnfinished = errorf(Corrupt, "the content is that of a disk that was only filled in part")
