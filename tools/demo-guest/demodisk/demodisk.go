// Package demodisk gives tests the disk of the demo's guest, a small Linux with a shell on its first serial port.
package demodisk

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// build builds the disk if it is not there yet; it is kept in .cache at the module's root.
var build = sync.OnceValues(func() (string, error) {
	file, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	root := filepath.Dir(strings.TrimSpace(string(file)))
	cmd := exec.Command("go", "run", "./tools/demo-guest")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the demo's guest: %w\n%s", err, out)
	}
	return filepath.Join(root, ".cache/demo/guest.raw"), nil
})

// Copy returns the path of a copy of the disk that is the test's own. Where there are no Debian packages the test is skipped.
func Copy(t testing.TB) string {
	t.Helper()
	path, err := build()
	if err != nil && strings.Contains(err.Error(), "Debian packages are not available") {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	from, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.Create(filepath.Join(t.TempDir(), "guest.raw"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(to, from)
	if err := errors.Join(err, to.Close()); err != nil {
		t.Fatal(err)
	}
	return to.Name()
}
