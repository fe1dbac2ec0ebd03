package main

import (
	"io"
	"sync"
)

// keyboard hands what is typed to one run of a VM after the other. A run leaves a Read behind when it ends, which must
// not take what is typed for the next.
type keyboard struct {
	typed chan []byte
}

func newKeyboard(in io.Reader) *keyboard {
	k := &keyboard{typed: make(chan []byte)}
	go func() {
		defer close(k.typed)
		for {
			buffer := make([]byte, 4096)
			n, err := in.Read(buffer)
			if n > 0 {
				k.typed <- buffer[:n]
			}
			if err != nil {
				return
			}
		}
	}()
	return k
}

// session is the keyboard of one run; the function ends it.
func (k *keyboard) session() (io.Reader, func()) {
	s := &session{typed: k.typed, over: make(chan struct{})}
	return s, sync.OnceFunc(func() { close(s.over) })
}

type session struct {
	typed <-chan []byte
	over  chan struct{}
	rest  []byte
}

// Read returns what is typed, and io.EOF when the session or the input is over.
func (s *session) Read(p []byte) (int, error) {
	if len(s.rest) == 0 {
		select {
		case b, ok := <-s.typed:
			if !ok {
				return 0, io.EOF
			}
			s.rest = b
		case <-s.over:
			return 0, io.EOF
		}
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}
