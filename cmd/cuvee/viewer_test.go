package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cuvee-vm/cuvee/render"
	"github.com/cuvee-vm/cuvee/runner"
)

// A viewer gets what the VM's spec and its Secret say, in a file that only its user can read.
func TestViewer(t *testing.T) {
	t.Parallel()
	const secret = `
---
apiVersion: v1
kind: Secret
metadata:
  name: small-display-secret
  namespace: default
  labels: {app.kubernetes.io/name: vm-runner, app.kubernetes.io/component: display-secret, app.kubernetes.io/instance: small}
stringData: {display-password: 'very \secret', password-expiry: never}
`
	h := newHome(t)
	port := freePort(t)
	display := fmt.Sprintf("display: {spice: {port: %d, proxyUrl: 'http://proxy.example:3128'}}", port)
	vm := strings.Replace(small("powerdownTimeout: 0"), "display: {}", display, 1)
	run := h.start(t, "-v", "-f", h.write(t, vm+secret))
	run.waitFor(t, "VM is Booting")
	want := fmt.Sprintf(`[virt-viewer]
type=spice
title=small
host=127.0.0.1
port=%d
password=very \\secret
proxy=http://proxy.example:3128
delete-this-file=1
`, port)
	if diff := cmp.Diff(want, h.output(t, "viewer", "small", "--print")); diff != "" {
		t.Errorf("--print (-want +got):\n%s", diff)
	}
	t.Run("File", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "small.vv")
		h.output(t, "viewer", "small", "-o", file)
		if diff := cmp.Diff(want, readFile(t, file)); diff != "" {
			t.Errorf("file (-want +got):\n%s", diff)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the file is %v, %v, want mode 0600", info.Mode(), err)
		}
		h.fails(t, 2, "exclude each other", "viewer", "small", "--print", "-o", file)
	})
	t.Run("Program", func(t *testing.T) {
		dir := t.TempDir()
		program := "#!/bin/sh\nstat -c %a \"$1\"\ncat \"$1\"\necho \"$@\" >\"$(dirname \"$0\")\"/arguments\n"
		if err := os.WriteFile(filepath.Join(dir, viewerProgram), []byte(program), 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := h.command(t, "viewer", "small")
		cmd.Env = append(cmd.Env, "PATH="+dir+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if diff := cmp.Diff("600\n"+want, string(out)); diff != "" {
			t.Errorf("what the viewer finds (-want +got):\n%s", diff)
		}
		arguments := strings.TrimSpace(readFile(t, filepath.Join(dir, "arguments")))
		if strings.Contains(arguments, "secret") || !strings.HasSuffix(arguments, ".vv") {
			t.Errorf("arguments of the viewer are %q, want one file", arguments)
		}
		if _, err := os.Stat(arguments); !os.IsNotExist(err) {
			t.Errorf("the viewer's file is left: %v", err)
		}
	})
	run.signal(t, syscall.SIGTERM)
	run.ends(t, 4, "")
}

// A viewer connects to where QEMU listens, unless the spec names another way.
func TestDisplayOf(t *testing.T) {
	cfg := &runner.Config{Boot: runner.Boot{Args: []runner.Arg{
		{Option: "smp", Value: 1},
		{Option: "spice", Keys: map[string]any{"addr": "127.0.0.1", "port": 5901}},
	}}}
	cases := map[string]struct {
		spice map[string]any
		cfg   *runner.Config
		want  *spiceDisplay
	}{
		"Nothing":   {spice: map[string]any{}, cfg: cfg, want: &spiceDisplay{Host: "127.0.0.1", Port: "5901"}},
		"Server":    {spice: map[string]any{"server": "vm.example"}, cfg: cfg, want: &spiceDisplay{Host: "vm.example", Port: "5901"}},
		"Proxy":     {spice: map[string]any{"proxyUrl": "http://proxy.example:3128"}, cfg: cfg, want: &spiceDisplay{Host: "127.0.0.1", Port: "5901", Proxy: "http://proxy.example:3128"}},
		"NoDisplay": {spice: map[string]any{"server": "vm.example"}, cfg: &runner.Config{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			spec := map[string]any{"vm": map[string]any{"display": map[string]any{"spice": tc.spice}}}
			got := displayOf(tc.cfg, render.Document{Object: map[string]any{"spec": spec}})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// What a VM's spec says cannot add a line to the file.
func TestViewerFile(t *testing.T) {
	cases := map[string]struct {
		reason string
		file   viewerFile
		want   string
		err    string
	}{
		"Least": {
			reason: "What is not there is left out.",
			file:   viewerFile{host: "vm.example", port: "5900"},
			want:   "[virt-viewer]\ntype=spice\nhost=vm.example\nport=5900\ndelete-this-file=1\n",
		},
		"Escapes": {
			reason: "A backslash and a leading blank have a meaning in such files.",
			file:   viewerFile{host: "h", port: "1", password: ` a\n`},
			want:   "[virt-viewer]\ntype=spice\nhost=h\nport=1\npassword=\\sa\\\\n\ndelete-this-file=1\n",
		},
		"NewLine": {
			reason: "Another line would be another setting.",
			file:   viewerFile{host: "h\ntype=vnc", port: "1"},
			err:    "the display's host has a control character",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := tc.file.text()
			if tc.err != "" {
				if err == nil || err.Error() != tc.err {
					t.Errorf("%s\nerror is %v, want %q", tc.reason, err, tc.err)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
				t.Errorf("%s\n(-want +got), error %v:\n%s", tc.reason, err, diff)
			}
		})
	}
}
