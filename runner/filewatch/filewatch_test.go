package filewatch_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cuvee-vm/cuvee/runner/filewatch"
)

// Each way of changing a file is noticed, and nothing else.
func TestWatch(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	swap := func(target string) {
		t.Helper()
		link := filepath.Join(dir, "..data")
		if err := os.Symlink(target, link+"_tmp"); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(link+"_tmp", link); err != nil {
			t.Fatal(err)
		}
	}
	write := func(path string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	changed := filewatch.Watch(t.Context(), time.Millisecond, filepath.Join(dir, "other"), path)
	for _, step := range []struct {
		name   string
		change func()
	}{
		{"Made", func() {
			write(path + "_tmp")
			_ = os.Rename(path+"_tmp", path)
		}},
		{"Touched", func() { _ = os.Chtimes(path, time.Time{}, time.Unix(1, 0)) }},
		{"Removed", func() { os.Remove(path) }},
		{"Linked", func() {
			write(filepath.Join(dir, "1", "file"))
			swap("1")
			_ = os.Symlink("..data/file", path)
		}},
		{"Swapped", func() {
			write(filepath.Join(dir, "2", "file"))
			swap("2")
		}},
	} {
		step.change()
		select {
		case <-changed:
		case <-time.After(time.Minute):
			t.Fatalf("%s is not noticed", step.name)
		}
		select {
		case <-changed:
			t.Errorf("%s is noticed twice", step.name)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
