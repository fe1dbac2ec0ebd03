package testserver

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"
)

// Main runs the tests of a package with one server for all of them: func TestMain(m *testing.M) { os.Exit(testserver.Main(m, &server)) }.
// Without the programs of Kubernetes the server is nil, and Need says what becomes of a test.
func Main(m *testing.M, server **Server) int {
	s, err := Start()
	if err != nil && !errors.Is(err, ErrNoAssets) {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	*server = s
	code := m.Run()
	if s == nil {
		return code
	}
	if err := s.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// Need fails a test that has no server where CI runs, as nothing may be left out there, and skips it elsewhere.
func Need(t testing.TB, server *Server) {
	t.Helper()
	// go test notes what a test asks for, but not what Main does: without this a skipped test would be one that has passed before.
	_ = os.Getenv(assets)
	if server != nil {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal(ErrNoAssets)
	}
	t.Skip(ErrNoAssets)
}

// lookAgain is how often Eventually asks.
const lookAgain = 100 * time.Millisecond

// Eventually asks until there is no problem any more. After the given time it fails the test with the last one.
func Eventually(t testing.TB, within time.Duration, problem func() string) {
	t.Helper()
	for end := time.Now().Add(within); ; {
		text := problem()
		if text == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatal(text)
		}
		<-time.After(lookAgain)
	}
}
