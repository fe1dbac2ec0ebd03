//go:build guest

package main

import (
	"fmt"
	"net"
	"testing"
	"time"
)

// A datagram to a forwarded port of this machine reaches the guest, and its answer comes back.
func testForwardsUDP(t *testing.T, g *guest) {
	const server = `python3 -c 'import socket; s=socket.socket(2,2); s.bind(("",9000)); [s.sendto(b"guest: "+d,a) for d,a in iter(lambda: s.recvfrom(99),0)]' &`
	g.shell(t, "{ "+server+" } 2>/dev/null")
	conn, err := net.Dial("udp", fmt.Sprintf("127.0.0.1:%d", g.udpPort))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// Nobody tells when the server listens, and datagrams get lost.
	answer := make([]byte, 100)
	for end := time.Now().Add(guestPatience); time.Now().Before(end); {
		if _, err := conn.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		if err := conn.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		if n, err := conn.Read(answer); err == nil {
			if got := string(answer[:n]); got != "guest: hello" {
				t.Errorf("guest says %q", got)
			}
			return
		}
	}
	t.Fatal("no answer from the guest")
}
