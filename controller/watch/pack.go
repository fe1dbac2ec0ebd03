package watch

import (
	"bytes"
	"compress/flate"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
)

const (
	// worthwhile is the least size in bytes of what is compressed.
	worthwhile = 128
	// poor is the share of its size, in percent, that a content may have when compressed. One that has more is unlike the dictionary.
	poor = 33
	// maximumDictionaries ends the search for better dictionaries, where contents are not alike.
	maximumDictionaries = 8
)

// Packer compresses texts that are much alike. It may be used by several goroutines at a time.
type Packer struct{ packer packer }

// Packed is a text, compressed if that pays.
type Packed struct {
	content    []byte
	dictionary *dictionary
}

// Pack compresses a text.
func (p *Packer) Pack(text []byte) Packed {
	content, dictionary := p.packer.pack(text)
	return Packed{content, dictionary}
}

// Text is what was packed.
func (p Packed) Text() ([]byte, error) {
	if p.dictionary == nil {
		return p.content, nil
	}
	return p.dictionary.unpack(p.content)
}

// packer compresses the contents of the objects of a kind. They are much alike, so one that was not like the others before is the
// dictionary for those to come: what is left of most is little more than their names.
type packer struct {
	current atomic.Pointer[dictionary]
	made    atomic.Int32
}

// dictionary is a content, and what compresses others with it.
type dictionary struct {
	text             []byte
	writers, readers sync.Pool
}

// level is the least that makes use of a dictionary.
const level = 2

// pack compresses a content. There is no dictionary if that does not pay, and the content is a copy.
func (p *packer) pack(data []byte) ([]byte, *dictionary) {
	if len(data) < worthwhile {
		return bytes.Clone(data), nil
	}
	var packed []byte
	d := p.current.Load()
	if d != nil {
		packed = d.pack(data)
	}
	if (d == nil || len(packed)*100 > len(data)*poor) && p.made.Add(1) <= maximumDictionaries {
		d = &dictionary{text: bytes.Clone(data)}
		p.current.Store(d)
		packed = d.pack(data)
	}
	if d == nil || len(packed) >= len(data) {
		return bytes.Clone(data), nil
	}
	return packed, d
}

func (d *dictionary) pack(data []byte) []byte {
	w, ok := d.writers.Get().(*flate.Writer)
	var out bytes.Buffer
	if ok {
		w.Reset(&out)
	} else {
		var err error
		if w, err = flate.NewWriterDict(&out, level, d.text); err != nil {
			panic(err) // The level is one of the package's own.
		}
	}
	defer d.writers.Put(w)
	// Writes to memory do not fail.
	_, _ = w.Write(data)
	_ = w.Close()
	return bytes.Clone(out.Bytes())
}

func (d *dictionary) unpack(packed []byte) ([]byte, error) {
	r, ok := d.readers.Get().(io.Reader)
	if !ok {
		r = flate.NewReaderDict(bytes.NewReader(packed), d.text)
	} else if resetter, ok := r.(flate.Resetter); ok {
		if err := resetter.Reset(bytes.NewReader(packed), d.text); err != nil {
			return nil, fmt.Errorf("uncompress: %w", err)
		}
	}
	defer d.readers.Put(r)
	return io.ReadAll(r)
}
