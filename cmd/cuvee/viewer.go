package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

type viewerFlags struct {
	vmFlags
	out   string
	print bool
}

func newViewerCommand() *cobra.Command {
	var f viewerFlags
	cmd := &cobra.Command{
		Use:   "viewer VM",
		Short: "Open a running VM's SPICE display in remote-viewer",
		Long: `Write what remote-viewer (Debian: virt-viewer) has to know to show a running VM's SPICE display, and open it. There is the
password in it, so the file is readable for its user only, and remote-viewer removes it when it has read it.

The VM's display.spice.server is the host to connect to, and proxyUrl the proxy. A VM of a cluster that has neither is forwarded to this
machine as long as the viewer is open; a file of -o or --print has its pod's address then.`,
		Example: `  cuvee viewer desktop
  cuvee viewer desktop -o desktop.vv`,
		Args: oneVM,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	f.bind(cmd)
	cmd.Flags().StringVarP(&f.out, "output", "o", "", "write the `FILE`, and open nothing")
	cmd.Flags().BoolVar(&f.print, "print", false, "print the file, with the password, and open nothing")
	return cmd
}

// viewerProgram shows SPICE displays.
const viewerProgram = "remote-viewer"

func (f *viewerFlags) run(cmd *cobra.Command, name string) error {
	if f.print && f.out != "" {
		return usage(cmd, errors.New("--output and --print exclude each other"))
	}
	where, err := f.place(cmd, name)
	if err != nil {
		return err
	}
	display, err := where.display(cmd.Context())
	if err != nil {
		return err
	}
	if f.print || f.out != "" {
		text, err := display.text()
		if err != nil {
			return err
		}
		to := f.out
		if f.print {
			to = "-"
		}
		return writeOutput(cmd.OutOrStdout(), to, []byte(text))
	}
	program, err := exec.LookPath(viewerProgram)
	if err != nil {
		return fmt.Errorf("there is no %s (Debian: virt-viewer); -o writes a file for one elsewhere", viewerProgram)
	}
	return display.view(cmd, program)
}

// view shows a display until the viewer is closed, and forwards it to this machine meanwhile if it is out of the viewer's reach.
func (v viewerFile) view(cmd *cobra.Command, program string) error {
	if v.forward != nil {
		ctx, cancel := context.WithCancel(cmd.Context())
		defer cancel()
		var lc net.ListenConfig
		l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		b := &bridge{dial: v.forward, log: cmd.ErrOrStderr()}
		go func() { _ = b.serve(ctx, l) }()
		if v.host, v.port, err = net.SplitHostPort(l.Addr().String()); err != nil {
			return err
		}
	}
	text, err := v.text()
	if err != nil {
		return err
	}
	return view(cmd, program, text)
}

// view shows a display until the viewer is closed. The password is in a file, as everybody can read a command line.
func view(cmd *cobra.Command, program, text string) error {
	dir, err := os.MkdirTemp(runtimeBase(), "viewer-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "display.vv")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	viewer := exec.CommandContext(cmd.Context(), program, file)
	viewer.Stdout, viewer.Stderr = cmd.ErrOrStderr(), cmd.ErrOrStderr()
	if err := viewer.Run(); err != nil {
		return fmt.Errorf("%s: %w", viewerProgram, err)
	}
	return nil
}

// viewerFile is a connection file of virt-viewer (remote-viewer(1), "CONNECTION FILE").
type viewerFile struct {
	title, host, port, password, proxy string
	// forward connects to the display if nothing says that a viewer could do so itself. The password keeps others of this machine out.
	forward func(ctx context.Context) (net.Conn, error)
}

// text is the file. What would be more than one line of it is refused.
func (v viewerFile) text() (string, error) {
	var b strings.Builder
	b.WriteString("[virt-viewer]\ntype=spice\n")
	for _, f := range []struct{ key, value string }{
		{"title", v.title}, {"host", v.host}, {"port", v.port}, {"password", v.password}, {"proxy", v.proxy},
	} {
		if strings.ContainsFunc(f.value, func(r rune) bool { return r < ' ' }) {
			return "", fmt.Errorf("the display's %s has a control character", f.key)
		}
		if f.value != "" {
			fmt.Fprintf(&b, "%s=%s\n", f.key, escapeKeyFile(f.value))
		}
	}
	b.WriteString("delete-this-file=1\n")
	return b.String(), nil
}

// escapeKeyFile writes a text so that GLib's parser of such files reads it as it is
// (https://docs.gtk.org/glib/struct.KeyFile.html).
func escapeKeyFile(s string) string {
	s = strings.ReplaceAll(s, `\`, `\\`)
	if strings.HasPrefix(s, " ") {
		s = `\s` + s[1:]
	}
	return s
}

// errNoDisplay says that there is nothing for a viewer.
var errNoDisplay = errors.New("the VM has no SPICE display; cuvee vnc shows its screen")

// readPassword reads a display's password, "" if there is none.
func readPassword(path string) (string, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimRight(string(text), "\r\n"), err
}
