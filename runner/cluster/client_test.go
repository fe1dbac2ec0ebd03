package cluster

import (
	"errors"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// kubelet replaces the token and the authority of a pod while the pod runs.
func TestClientFollowsCredentials(t *testing.T) {
	s := serve(t, works)
	c := NewClient(s.credentials)
	if _, err := c.virtualMachine(t.Context(), testVM); err != nil {
		t.Fatal(err)
	}
	if got := s.next(t, http.MethodGet).token; got != "Bearer first" {
		t.Errorf("authorization is %q", got)
	}
	write(t, s.credentials.TokenFile, "second\n")
	if _, err := c.virtualMachine(t.Context(), testVM); err != nil {
		t.Fatal(err)
	}
	if got := s.next(t, http.MethodGet).token; got != "Bearer second" {
		t.Errorf("authorization is %q after the token has been replaced", got)
	}

	other := serve(t, works)
	c = NewClient(Credentials{Server: s.URL, TokenFile: s.credentials.TokenFile, CAFile: other.credentials.CAFile})
	// httptest has one certificate for all its servers, so that a wrong authority has to be none at all.
	write(t, other.credentials.CAFile, "no certificate")
	if _, err := c.virtualMachine(t.Context(), testVM); err == nil {
		t.Error("a server of no known authority is trusted")
	}
	write(t, other.credentials.CAFile, read(t, s.credentials.CAFile))
	if _, err := c.virtualMachine(t.Context(), testVM); err != nil {
		t.Errorf("server of the new authority: %v", err)
	}
}

func TestClientErrors(t *testing.T) {
	cases := map[string]struct {
		reason string
		answer func(seen) (int, any)
		want   *APIError
	}{
		"Status": {
			reason: "What the API server says is what people read.",
			answer: func(seen) (int, any) { return failure(http.StatusForbidden, "Forbidden") },
			want:   &APIError{Code: 403, Reason: "Forbidden", Message: "no"},
		},
		"NotJSON": {
			reason: "A proxy in between says something else.",
			answer: func(seen) (int, any) { return http.StatusBadGateway, "nginx" },
			want:   &APIError{Code: 502, Message: "\"nginx\"\n"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := NewClient(serve(t, tc.answer).credentials).virtualMachine(t.Context(), testVM)
			got, _ := errors.AsType[*APIError](err)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\n%s", tc.reason, diff)
			}
		})
	}
}

func TestBackoff(t *testing.T) {
	b := backoff{least: time.Second, most: time.Minute}
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		want *= time.Second
		if got := b.next(nil); got < want || got > want*3/2+1 {
			t.Errorf("wait of %s, want %s and up to half of it more", got, want)
		}
	}
	for range 100 {
		if got := b.next(nil); got < time.Minute || got > 90*time.Second+1 {
			t.Fatalf("wait of %s after many failures", got)
		}
	}
	b.reset()
	if got := b.next(&APIError{RetryAfter: 20 * time.Second}); got < 20*time.Second {
		t.Errorf("wait of %s, though the server wants to be left alone for 20 s", got)
	}
	b.reset()
	if got := b.next(&APIError{RetryAfter: time.Hour}); got > 90*time.Second+1 {
		t.Errorf("wait of %s because a server says so", got)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
