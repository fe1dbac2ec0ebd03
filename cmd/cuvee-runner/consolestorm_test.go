package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// stormGrowth is how much the runner's memory may grow, in MiB, after all kinds of clients have been there for a while.
const stormGrowth = 16

// stormRounds is how often the memory is looked at, at least.
const stormRounds = 12

// rude are clients by what they do wrong, again and again. Each returns when its connection ends, or the context does.
var rude = map[string]struct {
	clients int
	do      func(ctx context.Context, c *console)
}{
	"NeverReads":    {40, neverReads},
	"Garbage":       {10, sendsGarbage},
	"WrongToken":    {10, hasWrongToken},
	"HalfHandshake": {10, greetsHalf},
	"HugeMessage":   {10, sendsHuge},
	"Reconnects":    {10, reconnects},
	"TakesOver":     {10, takesOver},
}

func neverReads(ctx context.Context, c *console) {
	if ws, err := c.dial(ctx, "/console/serial"); err == nil {
		defer func() { _ = ws.CloseNow() }()
		<-ctx.Done()
	}
}

// sendsGarbage becomes a websocket, and then sends what is none.
func sendsGarbage(ctx context.Context, c *console) {
	dialer := &tls.Dialer{Config: c.tls()}
	conn, err := dialer.DialContext(ctx, "tcp", c.address)
	if err != nil {
		return
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	fmt.Fprintf(conn, "GET /console/serial?mode=write HTTP/1.1\r\nHost: vm\r\nAuthorization: Bearer %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n\r\n", c.token, "dGhlIHNhbXBsZSBub25jZQ==")
	_, _ = io.CopyN(conn, rand.Reader, 1<<20)
}

func hasWrongToken(ctx context.Context, c *console) {
	wrong := *c
	wrong.token = "not the token of this VM"
	_, _ = wrong.get(ctx, "/console/serial/log")
}

// greetsHalf begins a TLS handshake, and waits until the other side has had enough.
func greetsHalf(ctx context.Context, c *console) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", c.address)
	if err != nil {
		return
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_, _ = conn.Write([]byte{22, 3, 1, 2, 0, 1})
	_, _ = io.Copy(io.Discard, conn)
}

func sendsHuge(ctx context.Context, c *console) {
	ws, err := c.dial(ctx, "/console/serial?mode=write")
	if err != nil {
		return
	}
	defer func() { _ = ws.CloseNow() }()
	_ = ws.Write(ctx, websocket.MessageBinary, bytes.Repeat([]byte("x"), 4<<20))
}

func reconnects(ctx context.Context, c *console) {
	if ws, err := c.dial(ctx, "/console/serial?tail=1048576"); err == nil {
		_, _, _ = ws.Read(ctx)
		_ = ws.CloseNow()
	}
}

func takesOver(ctx context.Context, c *console) {
	ws, err := c.dial(ctx, "/console/serial?mode=write")
	if err != nil {
		return
	}
	defer func() { _ = ws.CloseNow() }()
	for range 100 {
		if ws.Write(ctx, websocket.MessageText, []byte(`{"type":"takeOver"}`)) != nil || ws.Write(ctx, websocket.MessageBinary, []byte("me")) != nil {
			return
		}
	}
}

// pause is between two things that a rude client does, so that the machine has time for other tests.
const pause = 50 * time.Millisecond

// storm lets a hundred clients be rude until the context ends.
func storm(ctx context.Context, c *console) *sync.WaitGroup {
	var running sync.WaitGroup
	for _, kind := range rude {
		for range kind.clients {
			running.Go(func() {
				for ctx.Err() == nil {
					kind.do(ctx, c)
					select {
					case <-ctx.Done():
					case <-time.After(pause):
					}
				}
			})
		}
	}
	return &running
}

// written is how much the guest has written until now, 0 if it could not be asked: who comes while more strangers come than there is room
// for may be sent away, and has to come again.
func (c *console) written(ctx context.Context) int64 {
	a, err := c.get(ctx, "/console/serial/log?tail=1")
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(a.header.Get("Cuvee-Position"), 10, 64)
	if err != nil {
		return 0
	}
	return n + int64(len(a.body))
}

// resident is what a process has in memory, in MiB.
func resident(t *testing.T, pid int) int {
	t.Helper()
	status := string(readFile(t, fmt.Sprintf("/proc/%d/status", pid)))
	_, rest, _ := strings.Cut(status, "\nVmRSS:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kib >> 10
}

func openFiles(t *testing.T, pid int) int {
	t.Helper()
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

// stormFor has a guest that writes all the time, and a hundred rude clients. Its output goes on, and the runner's memory stays even.
func stormFor(t *testing.T, duration time.Duration) {
	r, c := startConsole(t, guestTalks)
	until(t, "the guest writes", func() bool { return c.written(t.Context()) > 64<<10 })
	files := openFiles(t, r.cmd.Process.Pid)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	running := storm(ctx, c)
	var memory []int
	last := c.written(t.Context())
	for end := time.Now().Add(duration); time.Now().Before(end) || len(memory) < stormRounds; {
		until(t, "the guest's output goes on", func() bool {
			now := c.written(t.Context())
			if now < last+1<<10 {
				return false
			}
			last = now
			return true
		})
		memory = append(memory, resident(t, r.cmd.Process.Pid))
	}
	cancel()
	running.Wait()
	first, most := slices.Max(memory[:len(memory)/3]), slices.Max(memory)
	t.Logf("the runner had %d MiB in memory in the first third, at most %d MiB later", first, most)
	if !raceDetector && most > first+stormGrowth {
		t.Errorf("the runner's memory grew from %d to %d MiB", first, most)
	}
	until(t, "the runner has let go of all clients", func() bool { return openFiles(t, r.cmd.Process.Pid) <= files })
	r.signal(t, syscall.SIGTERM)
	r.ends(t, 4)
	if strings.Contains(r.out.String(), consoleToken) {
		t.Error("the token is in the log")
	}
}

// A hundred rude clients disturb neither the guest nor the runner.
func TestRudeClients(t *testing.T) { stormFor(t, 12*time.Second) }
