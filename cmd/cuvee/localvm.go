package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cuvee-vm/cuvee/render"
	"github.com/cuvee-vm/cuvee/runner"
	"github.com/cuvee-vm/cuvee/runner/consoleclient"
	"github.com/cuvee-vm/cuvee/runner/consoleserver"
)

// identityFile is the file in a runtime directory that says which VM runs there.
const identityFile = "vm.json"

// identity is a VM by its name.
type identity struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

func (i identity) String() string { return i.Namespace + "/" + i.Name }

// runningVM is a VM that "cuvee run" runs, as it says itself in its runtime directory.
type runningVM struct {
	identity
	// DataDir is where its data is kept: VMs of one name differ in it.
	DataDir string `json:"dataDir"`
	// Display is how to reach its SPICE display, nil if it has none.
	Display *spiceDisplay `json:"display,omitempty"`
	// dir is the runtime directory.
	dir string
}

// spiceDisplay is how to reach a SPICE display. The password is in a file, where it belongs.
type spiceDisplay struct {
	Host         string `json:"host"`
	Port         string `json:"port"`
	Proxy        string `json:"proxy,omitempty"`
	PasswordFile string `json:"passwordFile,omitempty"`
}

// displayOf finds a VM's display in its config; the user may name another host for viewers, and a proxy.
func displayOf(cfg *runner.Config, doc render.Document) *spiceDisplay {
	for _, a := range cfg.Boot.Args {
		if a.Option != "spice" {
			continue
		}
		d := &spiceDisplay{Host: textAt(doc.Object, "server"), Port: fmt.Sprint(a.Keys["port"]), Proxy: textAt(doc.Object, "proxyUrl")}
		if d.Host == "" {
			d.Host, _ = a.Keys["addr"].(string)
		}
		if live := cfg.Live.Display; live != nil {
			d.PasswordFile = live.PasswordFile
		}
		return d
	}
	return nil
}

// textAt is a field of the spec's SPICE display, "" if it is not given.
func textAt(object map[string]any, field string) string {
	at := object
	for _, key := range []string{"spec", "vm", "display", "spice"} {
		at, _ = at[key].(map[string]any)
	}
	text, _ := at[field].(string)
	return text
}

// identify says which VM a runtime directory is for.
func (d *runtimeDir) identify(vm runningVM) error {
	data, err := json.Marshal(vm)
	if err != nil {
		return err
	}
	// At once, so that nobody reads half of it.
	path := filepath.Join(d.path, identityFile)
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// runningVMs are the VMs that "cuvee run" of this user runs on this machine.
func runningVMs() []runningVM {
	var vms []runningVM
	for _, dir := range runtimeDirs(runtimeBase()) {
		data, err := os.ReadFile(filepath.Join(dir, identityFile))
		if err != nil {
			continue
		}
		vm := runningVM{dir: dir}
		if err := json.Unmarshal(data, &vm); err != nil {
			continue
		}
		if info, err := os.Lstat(vm.socket()); err != nil || info.Mode()&fs.ModeSocket == 0 || !running(dir) {
			continue
		}
		vms = append(vms, vm)
	}
	return vms
}

// running says whether a run has its lock on a runtime directory.
func running(dir string) bool {
	lock, err := lockRuntimeDir(dir, 0)
	if err == nil {
		lock.Close()
	}
	return err != nil
}

// socket is where the VM's console is.
func (vm *runningVM) socket() string { return filepath.Join(vm.dir, consoleserver.SocketName) }

// errNoVM says that no VM of a name runs on this machine as this user.
var errNoVM = errors.New("no such VM runs here")

// localVM is a place: the VM of this name that "cuvee run" of this user runs on this machine.
type localVM struct {
	want identity
	// dataDir is where its data is, "" if that does not matter.
	dataDir string
}

func (l localVM) String() string { return l.want.Name }

func (l localVM) console(context.Context) (*consoleclient.Endpoint, error) {
	vm, err := l.find()
	if err != nil {
		return nil, err
	}
	return consoleclient.Unix(vm.socket()), nil
}

func (l localVM) display(context.Context) (viewerFile, error) {
	vm, err := l.find()
	if err != nil {
		return viewerFile{}, err
	}
	if vm.Display == nil {
		return viewerFile{}, errNoDisplay
	}
	v := viewerFile{title: vm.Name, host: vm.Display.Host, port: vm.Display.Port, proxy: vm.Display.Proxy}
	if vm.Display.PasswordFile != "" {
		if v.password, err = readPassword(vm.Display.PasswordFile); err != nil {
			return viewerFile{}, fmt.Errorf("read the display's password: %w", err)
		}
	}
	return v, nil
}

// find returns the VM, and with an error those that there are.
func (l localVM) find() (*runningVM, error) {
	dataDir := l.dataDir
	if dataDir != "" {
		var err error
		if dataDir, err = filepath.Abs(dataDir); err != nil {
			return nil, err
		}
	}
	var found []runningVM
	var others, dirs []string
	for _, vm := range runningVMs() {
		if vm.identity == l.want && (dataDir == "" || vm.DataDir == dataDir) {
			found = append(found, vm)
			dirs = append(dirs, vm.DataDir)
			continue
		}
		others = append(others, vm.String())
	}
	switch {
	case len(found) == 1:
		return &found[0], nil
	case len(found) > 1:
		return nil, fmt.Errorf("%s: %d VMs of this name run; choose one with --data-dir: %s", l.want, len(found), strings.Join(dirs, ", "))
	case len(others) > 0:
		return nil, fmt.Errorf("%s: %w; those that do: %s", l.want, errNoVM, strings.Join(others, ", "))
	}
	return nil, fmt.Errorf("%s: %w, and no other", l.want, errNoVM)
}
