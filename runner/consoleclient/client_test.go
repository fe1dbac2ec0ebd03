package consoleclient_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cuvee-vm/cuvee/runner/consoleclient"
	"github.com/cuvee-vm/cuvee/runner/consoleserver"
	"github.com/cuvee-vm/cuvee/runner/serial"
)

// serve serves a port that has this many bytes, and returns the guest's end of it.
func serve(t *testing.T, size int) (*consoleclient.Endpoint, net.Conn) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	ctx, cancel := context.WithCancel(context.Background())
	l, err := consoleserver.ListenUnix(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	port := serial.New(size)
	server := consoleserver.New(consoleserver.Options{Serial: port, Screen: func() consoleserver.Screen { return nil }})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(ctx, l, nil)
	}()
	guest, runner := net.Pipe()
	detach := port.Attach(runner)
	t.Cleanup(func() {
		cancel()
		<-done
		guest.Close()
		detach()
	})
	return consoleclient.Unix(path), guest
}

// next reads messages until there is output, which is returned, or one of the notices.
func next(t *testing.T, s *consoleclient.Serial, want consoleclient.Notice) string {
	t.Helper()
	for {
		m, err := s.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if m.Notice == want {
			return string(m.Output)
		}
	}
}

// What is typed reaches the guest as it is, until another client takes over, and again afterwards.
func TestSerialWrites(t *testing.T) {
	e, guest := serve(t, 100)
	connect := func() *consoleclient.Serial {
		s, err := e.Serial(t.Context(), consoleclient.SerialOptions{Write: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		next(t, s, consoleclient.NoticeWriter)
		return s
	}
	first := connect()
	// More than fits into a message.
	typed := bytes.Repeat([]byte("\x00\xff\r\n"), 10_000)
	got := make([]byte, len(typed))
	read := make(chan struct{})
	go func() {
		defer close(read)
		for at := 0; at < len(got); {
			n, err := guest.Read(got[at:])
			if err != nil {
				return
			}
			at += n
		}
	}()
	if err := first.Write(t.Context(), typed); err != nil {
		t.Fatal(err)
	}
	<-read
	if !bytes.Equal(got, typed) {
		t.Error("the guest gets something else than what was typed")
	}
	second := connect()
	next(t, first, consoleclient.NoticeTakenOver)
	if err := first.TakeOver(t.Context()); err != nil {
		t.Fatal(err)
	}
	next(t, first, consoleclient.NoticeWriter)
	next(t, second, consoleclient.NoticeTakenOver)
}

// A client that was cut off goes on where it was, and is told what is not there any more.
func TestSerialGoesOn(t *testing.T) {
	e, guest := serve(t, 10)
	say := func(text string) {
		if _, err := guest.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	s, err := e.Serial(t.Context(), consoleclient.SerialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	say("one ")
	if got := next(t, s, ""); got != "one " {
		t.Errorf("output is %q", got)
	}
	place := s.Place()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	say("two ")
	again, err := e.Serial(t.Context(), consoleclient.SerialOptions{From: &place})
	if err != nil {
		t.Fatal(err)
	}
	if got := next(t, again, ""); got != "two " || again.Place().Position != 8 {
		t.Errorf("output is %q, up to %d", got, again.Place().Position)
	}
	say("a lot more than is kept")
	var log bytes.Buffer
	for log.String() != "an is kept" {
		log.Reset()
		if err := e.Log(t.Context(), &log, -1); err != nil {
			t.Fatal(err)
		}
	}
	late, err := e.Serial(t.Context(), consoleclient.SerialOptions{From: &place})
	if err != nil {
		t.Fatal(err)
	}
	next(t, late, consoleclient.NoticeLost)
	if got, at := next(t, late, ""), late.Place().Position; got != "an is kept" || at != int64(len("one two a lot more than is kept")) {
		t.Errorf("output is %q, up to %d", got, at)
	}
	log.Reset()
	if err := e.Log(t.Context(), &log, 4); err != nil || log.String() != "kept" {
		t.Errorf("tail of the log is %q, error %v", &log, err)
	}
}

// What the server does not do, it explains in a line.
func TestRefused(t *testing.T) {
	e, _ := serve(t, 10)
	cases := map[string]struct {
		reason string
		do     func() error
	}{
		"Screenshot": {
			reason: "A VM that does not run has no screen.",
			do:     func() error { _, err := e.Screenshot(t.Context()); return err },
		},
		"VNC": {
			reason: "Nor can it be connected to.",
			do:     func() error { _, err := e.VNC(t.Context()); return err },
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := tc.do()
			var status *consoleclient.StatusError
			if !errors.As(err, &status) {
				t.Fatalf("%s\nerror is %v", tc.reason, err)
			}
			if diff := cmp.Diff(http.StatusServiceUnavailable, status.Code); diff != "" {
				t.Errorf("%s\nstatus (-want +got):\n%s", tc.reason, diff)
			}
			if status.Message == "" || strings.Contains(status.Message, "\n") {
				t.Errorf("%s\nmessage is %q, want one line", tc.reason, status.Message)
			}
		})
	}
}
