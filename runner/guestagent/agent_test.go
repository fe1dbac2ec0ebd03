package guestagent_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cuvee-vm/cuvee/runner/guestagent"
)

// agent is the guest's end of a channel, which a test scripts. It follows the protocol unless its answer says something else.
type agent struct {
	conn net.Conn
	// answer returns what is written for a command, and whether it is to be written instead of the usual.
	answer func(command) (string, bool)

	mu  sync.Mutex
	got []string
}

type command struct {
	Execute   string `json:"execute"`
	Arguments struct {
		ID   int64  `json:"id"`
		Mode string `json:"mode"`
	} `json:"arguments"`
}

// usual are the values that an agent returns, by command.
var usual = map[string]string{
	"guest-ping":                   `{}`,
	"guest-info":                   `{"version":"7.2.22","supported_commands":[{"name":"guest-ping","enabled":true,"success-response":true}]}`,
	"guest-get-host-name":          `{"host-name":"web"}`,
	"guest-get-osinfo":             `{"id":"debian","name":"Debian GNU/Linux","pretty-name":"Debian GNU/Linux 12 (bookworm)","version":"12 (bookworm)","version-id":"12","machine":"x86_64","kernel-release":"6.1.0-49-cloud-amd64","kernel-version":"#1 SMP"}`,
	"guest-network-get-interfaces": `[{"name":"lo","ip-addresses":[{"ip-address-type":"ipv4","ip-address":"127.0.0.1","prefix":8}],"hardware-address":"00:00:00:00:00:00"},{"name":"eth0","ip-addresses":[{"ip-address-type":"ipv4","ip-address":"10.0.2.15","prefix":24},{"ip-address-type":"ipv6","ip-address":"fe80::5054:ff:fe12:3456%eth0","prefix":64}],"hardware-address":"52:54:00:12:34:56"},{"name":"tun0"}]`,
	"guest-fsfreeze-freeze":        `2`,
	"guest-fsfreeze-thaw":          `2`,
	"guest-fsfreeze-status":        `"thawed"`,
}

// newAgent returns a client and the agent that it talks to. The answer may be nil.
func newAgent(t testing.TB, answer func(command) (string, bool)) (*guestagent.Client, *agent) {
	t.Helper()
	ours, theirs := socketPair(t)
	a := &agent{conn: theirs, answer: answer}
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.serve()
	}()
	t.Cleanup(func() {
		ours.Close()
		theirs.Close()
		<-done
	})
	return guestagent.New(ours), a
}

func (a *agent) serve() {
	for in := bufio.NewReader(a.conn); ; {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		// The sentinel resets the parser.
		line = line[bytes.LastIndexByte(line, 0xFF)+1:]
		var c command
		if json.Unmarshal(line, &c) != nil {
			continue
		}
		a.mu.Lock()
		a.got = append(a.got, c.Execute)
		a.mu.Unlock()
		if _, err := a.conn.Write([]byte(a.reply(c))); err != nil {
			return
		}
	}
}

func (a *agent) reply(c command) string {
	if a.answer != nil {
		if text, ok := a.answer(c); ok {
			return text
		}
	}
	switch {
	case c.Execute == "guest-sync-delimited":
		return synced(c)
	case c.Execute == "guest-shutdown":
		return ""
	case usual[c.Execute] != "":
		return returns(usual[c.Execute])
	}
	return refuses("CommandNotFound", "The command "+c.Execute+" has not been found")
}

// commands are what the agent has got, without the syncs.
func (a *agent) commands() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []string
	for _, c := range a.got {
		if c != "guest-sync-delimited" {
			all = append(all, c)
		}
	}
	return all
}

func synced(c command) string     { return fmt.Sprintf("\xff{\"return\": %d}\n", c.Arguments.ID) }
func returns(value string) string { return "{\"return\": " + value + "}\n" }
func refuses(class, desc string) string {
	b, err := json.Marshal(map[string]any{"error": map[string]string{"class": class, "desc": desc}})
	if err != nil {
		panic(err)
	}
	return string(b) + "\n"
}

// soon is a context for a client whose agent will not answer.
func soon(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// later is a context for a client whose agent will answer, on a machine that has much to do.
func later(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// socketPair returns two connected stream sockets, as the runner and QEMU have them.
func socketPair(t testing.TB) (net.Conn, net.Conn) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var conns [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "channel")
		if conns[i], err = net.FileConn(f); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	return conns[0], conns[1]
}
