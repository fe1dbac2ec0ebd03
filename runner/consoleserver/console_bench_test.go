package consoleserver

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// BenchmarkConsole prints the figures of bench/console.sh. The guest is the other end of the socket that QEMU has otherwise.
func BenchmarkConsole(b *testing.B) {
	// Each has a server of its own, which is gone before the next one begins.
	b.Run("Throughput", benchThroughput)
	b.Run("Echo", benchEcho)
	b.Run("Memory", benchMemory)
}

// throughputTime is how long throughput is measured.
const throughputTime = 3 * time.Second

// benchThroughput lets the guest write until the time is over. What it writes faster than the client takes it is lost: only what arrives counts.
func benchThroughput(b *testing.B) {
	p := newPod(b, DefaultLimits)
	ws := p.dial(b, "")
	go func() {
		chunk := bytes.Repeat([]byte("0123456789abcde\n"), 1024)
		for {
			if _, err := p.guest.Write(chunk); err != nil {
				return // The pod's end.
			}
		}
	}()
	received, begin := 0, time.Now()
	for time.Since(begin) < throughputTime {
		received += len(output(b, ws))
	}
	fmt.Printf("figure console.serial.mib_s %.1f MiB/s\n", float64(received)/(1<<20)/time.Since(begin).Seconds())
}

// output is the next of what the guest wrote that arrives.
func output(b *testing.B, ws *websocket.Conn) []byte {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	for {
		kind, data, err := ws.Read(ctx)
		if err != nil {
			b.Fatal(err)
		}
		if kind == websocket.MessageBinary {
			return data
		}
	}
}

func benchEcho(b *testing.B) {
	p := newPod(b, DefaultLimits)
	go echo(p.guest)
	ws := p.dial(b, "?mode=write")
	var took []time.Duration
	for range 5000 {
		begin := time.Now()
		if err := ws.Write(b.Context(), websocket.MessageBinary, []byte("x")); err != nil {
			b.Fatal(err)
		}
		output(b, ws)
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	fmt.Printf("figure console.echo.p99.ms %.3f ms\n", took[len(took)*99/100].Seconds()*1000)
}

func echo(conn net.Conn) {
	key := make([]byte, 1)
	for {
		if _, err := conn.Read(key); err != nil {
			return
		}
		if _, err := conn.Write(key); err != nil {
			return
		}
	}
}

// benchMemory counts both ends, as they are in one process: it is the most that the server's end can have.
func benchMemory(b *testing.B) {
	p := newPod(b, DefaultLimits)
	used := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapInuse + m.StackInuse
	}
	before := used()
	const clients = 100
	for range clients {
		p.dial(b, "")
	}
	fmt.Printf("figure console.memory.kib_per_client %.1f KiB\n", float64(used()-before)/1024/clients)
}
