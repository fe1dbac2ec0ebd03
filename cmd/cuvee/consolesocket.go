package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/cuvee-vm/cuvee/runner"
	"github.com/cuvee-vm/cuvee/runner/consoleserver"
	"github.com/cuvee-vm/cuvee/runner/serial"
)

// identityFile is the file in a runtime directory that says which VM runs there.
const identityFile = "vm.json"

// identity is a VM by its name.
type identity struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

func (i identity) String() string { return i.Namespace + "/" + i.Name }

// identify says which VM a runtime directory is for.
func (d *runtimeDir) identify(i identity) error {
	data, err := json.Marshal(i)
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

// errNoConsole says that no VM of a name runs on this machine as this user.
var errNoConsole = errors.New("no such VM runs here")

// findConsole returns the path of the console socket of a VM that "cuvee run" of this user runs on this machine.
func findConsole(want identity) (string, error) {
	base := runtimeBase()
	var found, others []string
	for _, dir := range runtimeDirs(base) {
		data, err := os.ReadFile(filepath.Join(dir, identityFile))
		if err != nil {
			continue
		}
		var i identity
		if err := json.Unmarshal(data, &i); err != nil {
			continue
		}
		socket := filepath.Join(dir, consoleserver.SocketName)
		if info, err := os.Lstat(socket); err != nil || info.Mode()&fs.ModeSocket == 0 || !running(dir) {
			continue
		}
		if i == want {
			found = append(found, socket)
			continue
		}
		others = append(others, i.String())
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return "", fmt.Errorf("find the console of %s: %d VMs of this name run, with data directories of their own: %s", want, len(found), strings.Join(found, ", "))
	case len(others) > 0:
		return "", fmt.Errorf("find the console of %s: %w; those that do: %s", want, errNoConsole, strings.Join(others, ", "))
	}
	return "", fmt.Errorf("find the console of %s: %w (looked in %s)", want, errNoConsole, base)
}

// running says whether a run has its lock on a runtime directory.
func running(dir string) bool {
	lock, err := lockRuntimeDir(dir, 0)
	if err == nil {
		lock.Close()
	}
	return err != nil
}

// consoleSocket is a VM's serial port and screen, on a socket in its runtime directory. It outlives the VM's restarts.
type consoleSocket struct {
	serial *serial.Port
	vm     atomic.Pointer[runner.VM]
}

// serveConsole serves the console of a VM that is about to run, until the function that it returns is called. A VM whose console cannot
// be served is of use all the same.
func serveConsole(dir string, log *slog.Logger) (*consoleSocket, func()) {
	c := &consoleSocket{serial: serial.New(serial.DefaultSize)}
	ctx, cancel := context.WithCancel(context.Background())
	l, err := consoleserver.ListenUnix(ctx, filepath.Join(dir, consoleserver.SocketName))
	if err != nil {
		cancel()
		log.Warn("the console cannot be reached from elsewhere", "error", err)
		return c, func() {}
	}
	server := consoleserver.New(consoleserver.Options{Serial: c.serial, Screen: c.screen, Log: log})
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(ctx, l); err != nil {
			log.Warn("the console is not served any more", "error", err)
		}
	}()
	return c, func() { cancel(); <-done }
}

func (c *consoleSocket) screen() consoleserver.Screen {
	if vm := c.vm.Load(); vm != nil {
		return vm
	}
	return nil
}
