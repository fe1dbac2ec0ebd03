package runner

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// gate is a writer that takes nothing until it is opened.
type gate struct {
	open    chan struct{}
	entered chan struct{}
	once    sync.Once
	bytes.Buffer
}

func (g *gate) Write(b []byte) (int, error) {
	g.once.Do(func() { close(g.entered) })
	<-g.open
	return g.Buffer.Write(b)
}

// A reader that stands still loses the oldest output, and no more than what is over the buffer.
func TestConsoleKeepsLatest(t *testing.T) {
	theirs, ours, err := socketPair("serial0")
	if err != nil {
		t.Fatal(err)
	}
	out := &gate{open: make(chan struct{}), entered: make(chan struct{})}
	c := newConsole(ours, nil, out)
	first := []byte("first")
	if _, err := theirs.Write(first); err != nil {
		t.Fatal(err)
	}
	<-out.entered
	lost, kept := bytes.Repeat([]byte("l"), 100_000), bytes.Repeat([]byte("k"), consoleBuffer)
	for _, b := range [][]byte{lost, kept} {
		if _, err := theirs.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	theirs.Close()
	c.mu.Lock()
	for !c.ended {
		// The writer, which also waits for this, is held up.
		c.more.Wait()
	}
	c.mu.Unlock()
	close(out.open)
	c.close()
	if want := slices.Concat(first, kept); !bytes.Equal(out.Bytes(), want) {
		t.Errorf("got %d bytes, want %d", out.Len(), len(want))
	}
}

// What is typed reaches the guest.
func TestConsoleInput(t *testing.T) {
	theirs, ours, err := socketPair("serial0")
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	c := newConsole(ours, bytes.NewReader([]byte("root\n")), nil)
	got := make([]byte, 5)
	if _, err := io.ReadFull(theirs, got); err != nil || string(got) != "root\n" {
		t.Errorf("guest got %q (%v)", got, err)
	}
	theirs.Close()
	c.close()
}

func TestReadLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "password")
	for _, content := range []string{" secret ", " secret \n", " secret \r\n"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := readLine(path); err != nil || got != " secret " {
			t.Errorf("line of %q is %q (%v)", content, got, err)
		}
	}
}
