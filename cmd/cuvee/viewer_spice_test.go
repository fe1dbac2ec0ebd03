package main

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// spiceClient connects with the library that remote-viewer is made of, and returns what testdata/spice_client.py prints.
func spiceClient(t *testing.T, port int, password string, channels ...string) string {
	t.Helper()
	args := append([]string{"testdata/spice_client.py", "127.0.0.1", fmt.Sprint(port)}, channels...)
	// Debian's, which its libraries belong to.
	cmd := exec.CommandContext(t.Context(), "/usr/bin/python3", args...)
	cmd.Stdin = strings.NewReader(password + "\n")
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	return strings.TrimSpace(string(out))
}

// A SPICE client is let in with the password while it lasts, and has picture, keyboard, sound, microphone and USB.
func TestSpiceClient(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		expiry, password, want string
	}{
		"RightPassword": {expiry: "never", password: "the secret", want: "in"},
		"WrongPassword": {expiry: "never", password: "another", want: "out"},
		"NoPassword":    {expiry: "never", password: "", want: "out"},
		"Expired":       {expiry: "now", password: "the secret", want: "out"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			secret := fmt.Sprintf(`
---
apiVersion: v1
kind: Secret
metadata:
  name: small-display-secret
  namespace: default
  labels: {app.kubernetes.io/name: vm-runner, app.kubernetes.io/component: display-secret, app.kubernetes.io/instance: small}
stringData: {display-password: the secret, password-expiry: %s}
`, tc.expiry)
			h := newHome(t)
			port := freePort(t)
			display := fmt.Sprintf("display: {spice: {port: %d, streamingVideo: filter, usbRedirects: 1}}", port)
			vm := strings.Replace(small("powerdownTimeout: 0"), "display: {}", display, 1)
			run := h.start(t, "-v", "-f", h.write(t, vm+secret))
			run.waitFor(t, "VM is Booting")
			if got := spiceClient(t, port, tc.password, "display", "inputs", "playback", "record", "usbredir"); got != tc.want {
				t.Errorf("the client's result is %q, want %q", got, tc.want)
			}
			run.signal(t, syscall.SIGTERM)
			run.ends(t, 4, "")
		})
	}
}
