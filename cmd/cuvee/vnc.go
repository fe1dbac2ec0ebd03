package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/cuvee-vm/cuvee/runner/consoleserver"
)

type vncFlags struct {
	vmFlags
	listen string
}

func newVNCCommand() *cobra.Command {
	var f vncFlags
	cmd := &cobra.Command{
		Use:   "vnc VM",
		Short: "Let VNC viewers show a running VM's screen",
		Long: `Listen for VNC viewers, print the address, and connect each of them to a running VM, until Ctrl-C. It works for every VM, whatever
display its spec has. There is no password: everybody on this machine can connect to a TCP port, but only its user to a Unix
socket. Other machines cannot connect; use SSH's port forwarding.`,
		Example: `  cuvee vnc hello
  cuvee vnc hello --listen 127.0.0.1:5901 & vncviewer 127.0.0.1:5901
  cuvee vnc hello --listen unix:/run/user/1000/hello.vnc`,
		Args: oneVM,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	f.bind(cmd)
	cmd.Flags().StringVar(&f.listen, "listen", "127.0.0.1:0", "the `ADDRESS` to listen at: a loopback address and a port (0 for a free one), or unix: and a path")
	return cmd
}

func (f *vncFlags) run(cmd *cobra.Command, name string) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	where, err := f.place(cmd, name)
	if err != nil {
		return err
	}
	// Before anybody is told an address: a VM that is not there.
	if _, err := where.console(ctx); err != nil {
		return err
	}
	l, err := listenVNC(ctx, f.listen)
	if errors.Is(err, errAddress) {
		return usage(cmd, err)
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(cmd.OutOrStdout(), l.Addr())
	b := &bridge{dial: func(ctx context.Context) (net.Conn, error) {
		e, err := where.console(ctx)
		if err != nil {
			return nil, err
		}
		return e.VNC(ctx)
	}, log: cmd.ErrOrStderr()}
	return b.serve(ctx, l)
}

// errAddress says that an address is not one to listen at.
var errAddress = errors.New("want a loopback address and a port, such as 127.0.0.1:5901, or unix: and a path")

// listenVNC listens where nobody on another machine can connect.
func listenVNC(ctx context.Context, address string) (net.Listener, error) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok && path != "" {
		if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSocket == 0 {
			return nil, fmt.Errorf("listen at %s: there is something else than a socket", path)
		}
		return consoleserver.ListenUnix(ctx, path)
	}
	at, err := netip.ParseAddrPort(address)
	if err != nil || !at.Addr().IsLoopback() {
		return nil, fmt.Errorf("--listen %q: %w", address, errAddress)
	}
	var lc net.ListenConfig
	return lc.Listen(ctx, "tcp", address)
}

// bridge connects viewers to the screen of a VM.
type bridge struct {
	dial func(ctx context.Context) (net.Conn, error)
	log  io.Writer
}

// serve connects each viewer, until the context ends.
func (b *bridge) serve(ctx context.Context, l net.Listener) error {
	defer context.AfterFunc(ctx, func() { l.Close() })()
	var viewers sync.WaitGroup
	defer viewers.Wait()
	for {
		viewer, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		viewers.Go(func() {
			defer viewer.Close()
			if err := b.connect(ctx, viewer); err != nil && ctx.Err() == nil {
				fmt.Fprintln(b.log, "cuvee: connect a viewer:", err)
			}
		})
	}
}

// connect is one viewer, until it or the VM ends.
func (b *bridge) connect(ctx context.Context, viewer net.Conn) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	screen, err := b.dial(ctx)
	if err != nil {
		return err
	}
	defer screen.Close()
	defer context.AfterFunc(ctx, func() { viewer.Close() })()
	go func() {
		defer cancel()
		_, _ = io.Copy(screen, viewer)
	}()
	// That one side has gone is how it ends.
	_, _ = io.Copy(viewer, screen)
	return nil
}
