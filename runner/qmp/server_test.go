package qmp_test

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/cuvee-vm/cuvee/runner/qmp"
)

const greeting = `{"QMP": {"version": {"qemu": {"micro": 22, "minor": 2, "major": 7}, "package": "test"}, "capabilities": ["oob"]}}`

// command is what a server gets.
type command struct {
	Execute   string         `json:"execute"`
	Arguments map[string]any `json:"arguments"`
	ID        uint64         `json:"id"`
}

// server is the other end of a monitor's connection, which a test scripts.
type server struct {
	t    *testing.T
	conn net.Conn
	dec  *json.Decoder
}

// newServer returns a monitor and the server that it talks to, which has sent nothing yet.
func newServer(t *testing.T) (*qmp.Monitor, *server) {
	t.Helper()
	ours, theirs := socketPair(t)
	m := qmp.New(ours)
	t.Cleanup(func() {
		m.Disconnect()
		theirs.Close()
	})
	return m, &server{t: t, conn: theirs, dec: json.NewDecoder(theirs)}
}

// connected returns a connected monitor and its server.
func connected(t *testing.T) (*qmp.Monitor, *server) {
	t.Helper()
	m, s := newServer(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.send(greeting)
		if c := s.receive(); c.Execute != "qmp_capabilities" {
			t.Errorf("first command is %q, want qmp_capabilities", c.Execute)
		} else {
			s.reply(c, `{}`)
		}
	}()
	if err := m.Connect(); err != nil {
		t.Fatal(err)
	}
	<-done
	return m, s
}

func socketPair(t *testing.T) (net.Conn, net.Conn) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var conns [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "socket")
		defer f.Close()
		if conns[i], err = net.FileConn(f); err != nil {
			t.Fatal(err)
		}
	}
	return conns[0], conns[1]
}

func (s *server) receive() command {
	var c command
	if err := s.dec.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		s.t.Errorf("server: %v", err)
	}
	return c
}

// send sends a line. A monitor that has gone is nothing that a server has to mind.
func (s *server) send(line string) {
	_, _ = io.WriteString(s.conn, line+"\r\n")
}

func (s *server) reply(c command, result string) {
	s.send(`{"return": ` + result + `, "id": ` + id(c) + `}`)
}

func (s *server) refuse(c command, class, desc string) {
	s.send(`{"error": {"class": "` + class + `", "desc": "` + desc + `"}, "id": ` + id(c) + `}`)
}

func id(c command) string {
	b, _ := json.Marshal(c.ID)
	return string(b)
}
