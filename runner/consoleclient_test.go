package runner_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cuvee-vm/cuvee/runner"
)

// Who sees the display is in the status for as long as that lasts.
func TestConsoleClient(t *testing.T) {
	c := loadConfig(t, "minimal")
	addGuest(t, c, guestHalts)
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	address := addSpice(t, c, password)
	m := boot(t, c)
	m.waitFor("the password is set", func(s runner.Status) bool { return s.DisplayPasswordSerial == 1 })
	if in, err := spiceLink(address, "wrong"); err != nil || in {
		t.Fatalf("client with a wrong password: let in is %v, error %v", in, err)
	}
	if in, err := spiceLink(address, "secret"); err != nil || !in {
		t.Fatalf("client is let in: %v, error %v", in, err)
	}
	// The client has gone at once, so its time is seen in the events.
	timeout := time.After(runTime)
	want := []string{"ConsoleConnected: connection from 127.0.0.1", "ConsoleDisconnected: 127.0.0.1 has disconnected"}
	for len(want) > 0 {
		select {
		case e := <-m.vm.Events():
			if e.Reason+": "+e.Message == want[0] {
				want = want[1:]
			}
		case <-timeout:
			t.Fatalf("no event %q", want[0])
		}
	}
	m.waitFor("nobody sees the display", func(s runner.Status) bool { return s.ConsoleClient == "" })
}
