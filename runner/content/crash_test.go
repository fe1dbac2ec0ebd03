package content_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/cuvee-vm/cuvee/runner/content"
)

// childEnv has the source and the disk of a process of these tests that only fills that disk.
const childEnv = "CUVEE_TEST_FILL"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "" {
		os.Exit(m.Run())
	}
	s := content.Source{URL: os.Getenv("URL"), Path: os.Getenv("SOURCE"), Checksum: os.Getenv("CHECKSUM")}
	t := content.Target{Path: os.Getenv("TARGET"), Size: crashDisk}
	// The first report says that it has begun.
	report := func(content.Progress) { fmt.Print(".") }
	if _, err := content.Fill(context.Background(), s, t, report); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// crashDisk is the size of the disks that are filled and interrupted.
const crashDisk = 48 * mib

// TestFillKilled kills a process that fills a disk at random points, again and again.
func TestFillKilled(t *testing.T) { killFills(t, 15) }

// killFills sees that a disk is whole after a process was killed that filled it, or visibly not, and can be filled then.
func killFills(t *testing.T, kills int) {
	disk := diskBytes(32 * mib)
	image := qcow2Image(t, disk)
	gz := compressed(t, disk, compressions["Gzip"])
	sources := []struct {
		name string
		content.Source
	}{
		{"raw file", content.Source{Path: writeFile(t, disk)}},
		{"raw url", content.Source{URL: serve(t, disk), Checksum: sha256Of(disk)}},
		{"qcow2 file", content.Source{Path: writeFile(t, image)}},
		{"qcow2 url", content.Source{URL: serve(t, image), Checksum: sha256Of(image)}},
		{"gzip url", content.Source{URL: serve(t, gz), Checksum: sha256Of(gz)}},
	}
	// How long a whole import takes here and now says when to kill.
	took := map[string]time.Duration{}
	for _, s := range sources {
		passed, err := child(t, s.Source, filepath.Join(t.TempDir(), "disk.img"), 0)
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		took[s.name] = passed
	}
	states := map[content.State]int{}
	for i := range kills {
		s := sources[i%len(sources)]
		after := time.Duration(rand.Int64N(int64(took[s.name])))
		t.Run(fmt.Sprintf("%d", i), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "disk.img")
			if i%2 == 1 && os.Geteuid() == 0 {
				path = loopDevice(t, crashDisk)
			}
			_, err := child(t, s.Source, path, after)
			state, lookErr := content.Look(path)
			if lookErr != nil {
				t.Fatal(lookErr)
			}
			states[state]++
			t.Logf("%s into %s, killed after %v: %v, state %s", s.name, filepath.Base(path), after, err, state)
			if state != content.HasContent {
				if _, err := content.Fill(t.Context(), s.Source, content.Target{Path: path, Size: crashDisk}, nil); err != nil {
					t.Fatalf("fill it again: %v", err)
				}
				if _, err := os.Stat(content.Leftover(path)); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("what the killed process has left is still there: %v", err)
				}
			}
			wantDisk(t, path, disk, crashDisk)
		})
	}
	t.Logf("states after the kill: %v", states)
	if states[content.HasContent] == kills {
		t.Error("no import was interrupted")
	}
}

// child fills a disk in a process of its own, which is killed a while after it has begun, if that is not 0. It returns how long the process took
// from then on.
func child(t *testing.T, s content.Source, path string, after time.Duration) (time.Duration, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=1", "URL="+s.URL, "SOURCE="+s.Path, "CHECKSUM="+s.Checksum, "TARGET="+path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = io.ReadFull(out, make([]byte, 1))
	begin := time.Now()
	if after > 0 {
		time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	}
	_, _ = io.Copy(io.Discard, out)
	if err := cmd.Wait(); err != nil {
		return 0, fmt.Errorf("%w %s", err, said.String())
	}
	return time.Since(begin), nil
}
