package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/cuvee-vm/cuvee/render"
	"github.com/cuvee-vm/cuvee/runner"
)

// host is where a VM is on this machine.
type host struct {
	namespace                     string
	dataDir, runtimeDir, imageDir string
	runtime                       *runtimeDir
	accelerator                   string
	disks                         []hostDisk
}

// hostDisk is a file or device that a disk is in.
type hostDisk struct {
	name, file, mode string
}

// host finds the directories and disks of a VM, and makes its runtime directory.
func (f *runFlags) host(d render.Document, disks map[string]string) (*host, error) {
	metadata, _ := d.Object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	namespace, ok := metadata["namespace"].(string)
	if !ok {
		namespace = "default"
	}
	h := &host{namespace: namespace, accelerator: f.accel, dataDir: f.dataDir}
	if h.dataDir == "" {
		base, err := dataHome()
		if err != nil {
			return nil, err
		}
		h.dataDir = filepath.Join(base, "cuvee", namespace, name)
	}
	var err error
	if h.dataDir, err = filepath.Abs(h.dataDir); err != nil {
		return nil, err
	}
	if h.imageDir, err = os.Getwd(); err != nil {
		return nil, err
	}
	if h.disks, err = hostDisks(disks); err != nil {
		return nil, err
	}
	if h.runtime, err = newRuntimeDir(); err != nil {
		return nil, fmt.Errorf("make runtime directory: %w; XDG_RUNTIME_DIR says where it is to be, otherwise TMPDIR", err)
	}
	h.runtimeDir = h.runtime.path
	return h, nil
}

func (h *host) remove() { h.runtime.remove() }

// dataHome is the user's directory for data (XDG Base Directory Specification).
func dataHome() (string, error) {
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return dir, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find the data directory: %w; give one with --data-dir", err)
	}
	return filepath.Join(home, ".local", "share"), nil
}

// diskFiles are the files of disks by name. A file's name may hold anything: only the first "=" separates.
func diskFiles(given []string) (map[string]string, error) {
	files := map[string]string{}
	for _, g := range given {
		name, file, _ := strings.Cut(g, "=")
		if name == "" || file == "" {
			return nil, fmt.Errorf("--disk %q: want NAME=FILE", g)
		}
		if _, ok := files[name]; ok {
			return nil, fmt.Errorf("--disk %s is given twice", name)
		}
		files[name] = file
	}
	return files, nil
}

func hostDisks(given map[string]string) ([]hostDisk, error) {
	var out []hostDisk
	for name, file := range given {
		path, err := filepath.Abs(file)
		if err != nil {
			return nil, err
		}
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("open disk %s: %w", name, err)
		}
		d := hostDisk{name: name, file: path, mode: "Filesystem"}
		switch mode := info.Mode(); {
		case mode.IsRegular():
		case mode&fs.ModeDevice != 0 && mode&fs.ModeCharDevice == 0:
			d.mode = "Block"
		default:
			return nil, fmt.Errorf("open disk %s: %s is neither a file nor a block device", name, file)
		}
		// QEMU would say so, too, but with all that it was told about the disk.
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return nil, fmt.Errorf("open disk %s: %w", name, err)
		}
		if err := f.Close(); err != nil {
			return nil, fmt.Errorf("open disk %s: %w", name, err)
		}
		out = append(out, d)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].name < out[j].name })
	return out, nil
}

// values are what the templates' overlay for this machine is filled in with.
func (h *host) values() map[string]any {
	disks := make([]any, len(h.disks))
	for i, d := range h.disks {
		disks[i] = map[string]any{"name": d.name, "file": d.file, "mode": d.mode}
	}
	return map[string]any{
		"host": map[string]any{
			"dataDir":     h.dataDir,
			"runtimeDir":  h.runtimeDir,
			"imageDir":    h.imageDir,
			"accelerator": h.accelerator,
		},
		"diskFiles": disks,
	}
}

// checkDisks refuses a --disk that the VM has no disk for: a slip of the pen would boot an empty disk instead.
func (h *host) checkDisks(cfg *runner.Config) error {
	used := map[string]bool{}
	for _, c := range cfg.Resolve {
		if c.Kind == runner.KindAIO {
			used[c.Path] = true
		}
	}
	var errs []error
	for _, d := range h.disks {
		if !used[d.file] {
			errs = append(errs, fmt.Errorf("--disk %s: the VM has no disk of this name", d.name))
		}
	}
	return errors.Join(errs...)
}

// makeVolumes makes the directories of disk images, which in a pod are mounted volumes.
func makeVolumes(cfg *runner.Config) error {
	for _, i := range cfg.Boot.Images {
		if err := os.MkdirAll(filepath.Dir(i.Path), 0o700); err != nil {
			return fmt.Errorf("make directory of disk image: %w", err)
		}
	}
	return nil
}
