package templateset

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing/fstest"

	"github.com/cuvee-vm/cuvee/render"
)

const (
	// maximumFiles and maximumBytes keep the manager from reading a directory that was named by mistake.
	maximumFiles = 1000
	maximumBytes = 8 << 20
	// maximumDepth ends what would go round in circles.
	maximumDepth = 8
)

// current is the symlink that kubelet swaps when the volume of a ConfigMap changes: all files of a moment are behind it.
const current = "..data"

// settingsFile is the place of [Settings] in a snapshot: it is none that a directory can have. CUE knows it as settingsCUE.
const (
	settingsFile = "settings"
	settingsCUE  = "settings.of.config.cue"
)

// snapshot is what a site's directory held at one moment: its CUE files, its cases, and the list of what it accepts to break; and the
// settings that are no CUE.
type snapshot map[string]string

// readDirectory reads a directory. Behind a symlink that is swapped as a whole, it reads all files from behind the same one.
func readDirectory(dir string) (snapshot, error) {
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	s := snapshot{}
	size := 0
	if err := s.read(root, "", 0, &size); err != nil {
		return nil, err
	}
	return s, nil
}

func (s snapshot) read(dir, name string, depth int, size *int) error {
	if depth > maximumDepth {
		return fmt.Errorf("%s is deeper than %d directories", name, maximumDepth)
	}
	switch now, err := filepath.EvalSymlinks(filepath.Join(dir, current)); {
	case err == nil:
		dir = now
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		// Hidden files are those of tools: of kubelet, git and editors.
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		file, rel := filepath.Join(dir, e.Name()), path.Join(name, e.Name())
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		if info.IsDir() {
			if err := s.read(file, rel, depth+1, size); err != nil {
				return err
			}
			continue
		}
		if !info.Mode().IsRegular() || !counts(rel) {
			continue
		}
		text, err := readFile(file, maximumBytes-*size)
		if err != nil {
			return err
		}
		s[rel] = text
		*size += len(text)
		if len(s) > maximumFiles {
			return fmt.Errorf("there are more than %d files: is this a directory of templates?", maximumFiles)
		}
	}
	return nil
}

// counts says whether a file is one of templates.
func counts(name string) bool {
	return strings.HasSuffix(name, ".cue") || name == AcceptFile || path.Base(path.Dir(name)) == render.CaseDir && strings.HasSuffix(name, ".yaml")
}

func readFile(name string, limit int) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err != nil {
		return "", err
	}
	if len(data) > limit {
		return "", fmt.Errorf("there are more than %d MiB: is this a directory of templates?", maximumBytes>>20)
	}
	return string(data), nil
}

// revision is a digest of all files with their names.
func (s snapshot) revision() string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(s)) {
		fmt.Fprintf(h, "%d %s %d %s\n", len(name), name, len(s[name]), s[name])
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}

// hasTemplates says whether there is any CUE.
func (s snapshot) hasTemplates() bool {
	for name := range s {
		if strings.HasSuffix(name, ".cue") {
			return true
		}
	}
	return false
}

func (s snapshot) hasSettings() bool {
	_, ok := s[settingsFile]
	return ok
}

// files are those of a directory of the snapshot, as a file system.
func (s snapshot) files(choose func(name string) (as string, ok bool)) fstest.MapFS {
	out := fstest.MapFS{}
	for name, text := range s {
		if as, ok := choose(name); ok {
			out[as] = &fstest.MapFile{Data: []byte(text), Mode: 0o444}
		}
	}
	return out
}
