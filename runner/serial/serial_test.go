package serial

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"
)

// patience is far more than anything here takes; it only ends what hangs.
const patience = 30 * time.Second

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// attach gives a port a QEMU, which is the test.
func attach(t *testing.T, p *Port) net.Conn {
	t.Helper()
	theirs, ours := net.Pipe()
	detach := p.Attach(ours)
	t.Cleanup(func() { theirs.Close(); detach() })
	return theirs
}

// read reads this many bytes, and returns them with the number of those that were lost.
func read(t *testing.T, r *Reader, n int) (string, int64) {
	t.Helper()
	var got []byte
	var lost int64
	for len(got) < n {
		b := make([]byte, n-len(got))
		c, l, err := r.Read(within(t), b)
		if err != nil {
			t.Fatalf("after %d bytes: %v", len(got), err)
		}
		got, lost = append(got, b[:c]...), lost+l
	}
	return string(got), lost
}

// Each reader gets everything, binary, from where it begins.
func TestReaders(t *testing.T) {
	p := New(1000)
	guest := attach(t, p)
	early := p.Reader(0)
	defer early.Close()
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	if _, err := guest.Write(every); err != nil {
		t.Fatal(err)
	}
	if got, lost := read(t, early, 256); got != string(every) || lost != 0 {
		t.Errorf("early reader got %q, lost %d", got, lost)
	}
	late := p.Reader(250)
	defer late.Close()
	if got, _ := read(t, late, 6); got != string(every[250:]) {
		t.Errorf("late reader got %q", got)
	}
	future := p.Reader(1 << 40)
	defer future.Close()
	if got := future.Position(); got != 256 {
		t.Errorf("a reader of the future begins at %d", got)
	}
}

// A reader that stands still does not hold up the guest. It loses the oldest output, and is told how much.
func TestReaderIsTooSlow(t *testing.T) {
	p := New(1000)
	guest := attach(t, p)
	slow, quick := p.Reader(0), p.Reader(0)
	defer slow.Close()
	defer quick.Close()
	text := make([]byte, 12345)
	for i := range text {
		text[i] = byte(rand.Int())
	}
	for at := 0; at < len(text); at += 5 {
		if _, err := guest.Write(text[at : at+5]); err != nil {
			t.Fatal(err)
		}
		if got, lost := read(t, quick, 5); got != string(text[at:at+5]) || lost != 0 {
			t.Fatalf("quick reader got %q and lost %d at %d", got, lost, at)
		}
	}
	got, lost := read(t, slow, 1000)
	if want := int64(len(text) - 1000); lost != want || got != string(text[len(text)-1000:]) {
		t.Errorf("slow reader lost %d, want %d", lost, want)
	}
}

// The ring is right at every size of what is written and read.
func TestRing(t *testing.T) {
	for range 200 {
		size := 1 + rand.IntN(50)
		p := New(size)
		var all []byte
		for range 20 {
			b := make([]byte, rand.IntN(3*size))
			for i := range b {
				b[i] = byte(rand.Int())
			}
			p.take(b)
			all = append(all, b...)
			want := all[max(0, len(all)-size):]
			got, first := p.Copy(0)
			if !bytes.Equal(got, want) || first != int64(len(all)-len(want)) {
				t.Fatalf("size %d after %d bytes: got %v from %d, want %v", size, len(all), got, first, want)
			}
		}
	}
}

// What was written is there after its QEMU, and another one goes on.
func TestOutlivesQEMU(t *testing.T) {
	p := New(100)
	for _, word := range []string{"one ", "two"} {
		theirs, ours := net.Pipe()
		detach := p.Attach(ours)
		if _, err := theirs.Write([]byte(word)); err != nil {
			t.Fatal(err)
		}
		theirs.Close()
		detach()
	}
	if got, _ := p.Copy(0); string(got) != "one two" {
		t.Errorf("kept %q", got)
	}
	// Nobody is there to type to.
	if err := p.TakeOver().Write(within(t), []byte("x")); err != nil {
		t.Error(err)
	}
}

// The newest writer types; the one before is told, also while the guest takes nothing.
func TestTakeOver(t *testing.T) {
	p := New(100)
	guest := attach(t, p)
	first := p.TakeOver()
	if err := first.Write(within(t), []byte("a")); err != nil {
		t.Fatal(err)
	}
	// The guest has not taken the first key, so there is no way on for the second.
	stuck := make(chan error, 1)
	go func() { stuck <- first.Write(within(t), []byte("bc")) }()
	if first.Gone() {
		t.Error("gone before its time")
	}
	second := p.TakeOver()
	if err := <-stuck; !errors.Is(err, ErrTakenOver) {
		t.Errorf("write of the first is %v", err)
	}
	select {
	case <-first.TakenOver():
	default:
		t.Error("the first is not told")
	}
	first.Close() // No longer its own.
	done := make(chan error, 1)
	go func() { done <- second.Write(within(t), []byte("d")) }()
	got := make([]byte, 2)
	if _, err := io.ReadFull(guest, got); err != nil || string(got) != "ad" {
		t.Errorf("the guest got %q (%v)", got, err)
	}
	if err := <-done; err != nil || second.Gone() {
		t.Errorf("the second: %v", err)
	}
}

// A guest that takes nothing holds up a writer only as long as that waits.
func TestGuestTakesNothing(t *testing.T) {
	p := New(100)
	attach(t, p)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := p.TakeOver().Write(ctx, make([]byte, 1<<20)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("write is %v", err)
	}
}

// A reader that is closed ends a Read that waits.
func TestReaderClose(t *testing.T) {
	r := New(100).Reader(0)
	ended := make(chan error, 1)
	go func() {
		_, _, err := r.Read(within(t), make([]byte, 1))
		ended <- err
	}()
	r.Close()
	r.Close()
	if err := <-ended; !errors.Is(err, ErrClosed) {
		t.Errorf("read is %v", err)
	}
}
