// Command kube-up runs a control plane of Kubernetes for tests: etcd, kube-apiserver, kube-controller-manager and kube-scheduler, and on
// request kwok, whose nodes are only pretended and say of every pod that it runs.
//
// It takes the programs from the directory that it is in itself; make kube builds them and puts it beside them. When the control plane
// is ready it prints the path of the administrator's kubeconfig, and one line to standard error on how long that took. It runs until it
// gets SIGINT or SIGTERM, or its standard input ends if that is a pipe: a test that holds the other end need not tell it. However it
// ends, nothing that it started is left.
//
// Usage:
//
//	kube-up [-dir DIR] [-kwok N] [-address IP] [-node NAME=IP]... [-apiserver-arg ARG]... [-controller-manager-arg ARG]...
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// startTimeout is far more than a start takes, also on a machine with much else to do.
const startTimeout = 5 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "kube-up:", err)
		os.Exit(1)
	}
}

// options are what the command line says.
type options struct {
	dir     string
	kwok    int
	address netip.Addr
	nodes   []node
	// Further arguments of these programs, after our own.
	apiserverArgs, controllerManagerArgs []string
}

// node is a node that certificates are made for.
type node struct {
	name    string
	address netip.Addr
}

func parse(args []string) (*options, error) {
	o := options{}
	flags := flag.NewFlagSet("kube-up", flag.ContinueOnError)
	flags.StringVar(&o.dir, "dir", "", "new `directory` for data, logs, certificates and kubeconfigs, which stays; without it one that is removed at the end")
	flags.IntVar(&o.kwok, "kwok", 0, "`number` of pretended nodes")
	flags.TextVar(&o.address, "address", netip.MustParseAddr("127.0.0.1"), "`address` that the API server is reached at; pods need one that is not a loopback's")
	flags.Func("node", "`name=address` of a node to make certificates and a kubeconfig for; can be repeated", func(s string) error {
		name, address, _ := strings.Cut(s, "=")
		ip, err := netip.ParseAddr(address)
		if name == "" || err != nil {
			return errors.New("want NAME=ADDRESS, for instance node1=10.0.0.2")
		}
		o.nodes = append(o.nodes, node{name, ip})
		return nil
	})
	flags.Func("apiserver-arg", "further `argument` of kube-apiserver; can be repeated", func(s string) error {
		o.apiserverArgs = append(o.apiserverArgs, s)
		return nil
	})
	flags.Func("controller-manager-arg", "further `argument` of kube-controller-manager; can be repeated", func(s string) error {
		o.controllerManagerArgs = append(o.controllerManagerArgs, s)
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if o.kwok < 0 {
		return nil, fmt.Errorf("-kwok %d: want a number of nodes", o.kwok)
	}
	return &o, nil
}

func run(ctx context.Context, args []string, in *os.File, out io.Writer) error {
	o, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the programs: %w", err)
	}
	if o.dir == "" {
		if o.dir, err = os.MkdirTemp("", "kube-up-"); err != nil {
			return err
		}
		defer os.RemoveAll(o.dir)
	} else if o.dir, err = newDir(o.dir); err != nil {
		return err
	}

	ctx, cancel := untilClosed(ctx, in)
	defer cancel()
	p := newProcesses(filepath.Dir(self), o.dir)
	defer p.stop()
	begin := time.Now()
	config, err := start(ctx, p, o)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "kube-up: ready after %.1f s\n", time.Since(begin).Seconds())
	fmt.Fprintln(out, config)
	select {
	case <-ctx.Done():
		return nil
	case err := <-p.failed:
		return err
	}
}

// newDir makes a directory, and refuses one that has something in it: data of another control plane would be taken for this one's.
func newDir(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	if len(entries) > 0 {
		return "", fmt.Errorf("-dir %s: not empty", dir)
	}
	return dir, nil
}

// untilClosed returns a context that also ends when the input does, if that is a pipe.
func untilClosed(ctx context.Context, in *os.File) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	info, err := in.Stat()
	if err == nil && info.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0 {
		go func() {
			_, _ = io.Copy(io.Discard, in)
			cancel()
		}()
	}
	return ctx, cancel
}
