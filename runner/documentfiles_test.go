package runner_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cuvee-vm/cuvee/runner"
)

// The document has each file that a VM with everything makes, where it is, and whether it is still there when the VM has ended. A disk's
// image is not among them: it is where the config says.
func TestDocumentFiles(t *testing.T) {
	dir := t.TempDir()
	runner.WriteInputs(t, dir)
	c := runner.CorpusConfig(t, "1.1/full", dir)
	withTPM := runner.CorpusConfig(t, "1.0/tpm", dir)
	c.Boot.TPM = &runner.TPM{State: c.Boot.DataDir, Socket: withTPM.Boot.TPM.Socket}
	for _, a := range withTPM.Boot.Args {
		if a.Option == "tpmdev" || a.Keys["id"] == "tpm0" || a.JSON["tpmdev"] != nil {
			c.Boot.Args = append(c.Boot.Args, a)
		}
	}

	var running, after [][]string
	for _, row := range table(t, "Files", 0) {
		file := []string{row[0], row[1]}
		switch row[2] {
		case "for ever":
			running, after = append(running, file), append(after, file)
		case "as long as QEMU":
			running = append(running, file)
		}
	}
	seen := func() [][]string {
		var files [][]string
		for name, in := range map[string]string{"data": c.Boot.DataDir, "runtime": c.Boot.RuntimeDir} {
			entries, err := os.ReadDir(in)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if filepath.Join(in, e.Name()) != c.Boot.Images[0].Path {
					files = append(files, []string{e.Name(), name})
				}
			}
		}
		return files
	}
	m := boot(t, c)
	m.until("choices are kept", func() bool {
		_, err := os.Stat(filepath.Join(c.Boot.DataDir, "resolved.json"))
		return err == nil
	})
	compareFiles(t, "while the VM runs", running, seen())
	// It may hold secrets.
	info, err := os.Stat(c.Boot.NoCloud.Image)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("cloud-init disk has the mode %v, want 0600", info.Mode())
	}
	m.force()
	<-m.done
	compareFiles(t, "after its end", after, seen())
}

func compareFiles(t *testing.T, when string, documented, seen [][]string) {
	t.Helper()
	slices.SortFunc(documented, slices.Compare)
	slices.SortFunc(seen, slices.Compare)
	if diff := cmp.Diff(documented, seen); diff != "" {
		t.Errorf("files %s (-document +there):\n%s", when, diff)
	}
}
