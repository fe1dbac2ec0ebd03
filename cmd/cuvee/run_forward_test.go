package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cuvee-vm/cuvee/tools/demo-guest/demodisk"
	"github.com/cuvee-vm/cuvee/tools/freeport"
)

// A server in the guest is reached at a forwarded port of this machine, by nobody but this machine.
func TestRunForwards(t *testing.T) {
	t.Parallel()
	const said = "Hello from inside"
	h := newHome(t)
	port := freePort(t)
	vm := strings.NewReplacer(
		"      - user: {}\n", fmt.Sprintf("      - user: {forward: [{port: %d, guestPort: 8080}]}\n", port),
		"        - echo Hello from a virtual machine that was a YAML file a moment ago\n",
		"        - mkdir /tmp/www && echo "+said+" >/tmp/www/index.html && httpd -p 8080 -h /tmp/www\n",
	).Replace(readFile(t, "../../examples/hello.yaml"))
	run := h.start(t, "-f", h.write(t, vm), "--disk", "system="+demodisk.Copy(t))
	// The address comes by DHCP, while the guest goes on.
	run.waitFor(t, "eth0: 10.0.2.15")
	run.waitFor(t, "cuvee-demo: ready")

	answer, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/index.html", port))
	if err != nil {
		t.Fatalf("%v\n%s", err, run.out)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(string(body)); got != said {
		t.Errorf("guest says %q, want %q", got, said)
	}
	// Another address of the loopback, as one that the network could reach.
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.2:%d", port))
	if err == nil {
		conn.Close()
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("connection to another address than 127.0.0.1: %v, want a refusal", err)
	}
	run.signal(t, syscall.SIGTERM)
	run.ends(t, 0, "asking the guest to power down")
}

// A datagram reaches the server that listens at the guest's end of a forwarded UDP port.
func TestRunForwardsDatagrams(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	port := freePort(t)
	// The only server for UDP that busybox has is that for DHCP. The kernel counts what a server has read.
	vm := strings.NewReplacer(
		"      - user: {}\n", fmt.Sprintf("      - user: {forward: [{port: %d, guestPort: 67, protocol: UDP}]}\n", port),
		"        - echo Hello from a virtual machine that was a YAML file a moment ago\n", `
        - echo interface eth0 >/tmp/conf && echo lease_file /tmp/leases >>/tmp/conf && touch /tmp/leases
        - (until udhcpd -f /tmp/conf; do usleep 200000; done) >/dev/null 2>&1 &
        - (until awk '/^Udp. [0-9]/ {exit $2 == 0}' /proc/net/snmp; do usleep 200000; done; echo a server has read a datagram) &
`,
	).Replace(readFile(t, "../../examples/hello.yaml"))
	run := h.start(t, "-f", h.write(t, vm), "--disk", "system="+demodisk.Copy(t))
	run.waitFor(t, "eth0: 10.0.2.15")
	run.waitFor(t, "cuvee-demo: ready")

	conn, err := net.Dial("udp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	over := make(chan struct{})
	defer close(over)
	go func() {
		for {
			// A datagram that is refused or lost is followed by others.
			_, _ = conn.Write([]byte("hello"))
			select {
			case <-over:
				return
			case <-time.After(500 * time.Millisecond):
			}
		}
	}()
	run.waitFor(t, "a server has read a datagram")
	run.signal(t, syscall.SIGTERM)
	run.ends(t, 0, "asking the guest to power down")
}

// freePort finds a port that nothing listens at.
func freePort(t *testing.T) int {
	t.Helper()
	port, err := freeport.Next()
	if err != nil {
		t.Fatal(err)
	}
	return port
}
