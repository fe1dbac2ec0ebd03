// Command demo-guest builds a small bootable guest disk from Debian packages, for the demo and for
// tests that need a guest that boots.
//
// The disk has a GPT with one EFI system partition: a Debian cloud kernel, an initramfs with busybox and the
// scripts in guest/root, systemd-boot for UEFI and syslinux for a legacy BIOS. Everything runs from the initramfs, so the guest
// never writes to its disk. It shows on the serial console what its NoCloud disk told it, and powers
// down when the ACPI power button is pressed.
//
// Usage:
//
//	go run ./tools/demo-guest [-o FILE] [-cache DIR] [-agent FILE]
//
// With -agent it also writes an archive with QEMU's guest agent, for tests: a disk that the guest unpacks.
//
// It needs apt-get, apt-cache and dpkg-deb, and no root. Packages are kept in the cache directory. The
// disk is built again only when a package has a newer version or this program has changed.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "demo-guest:", err)
		os.Exit(1)
	}
}

// run parses the arguments and builds the disk, with a line of progress for each step on w.
func run(ctx context.Context, args []string, w io.Writer) error {
	flags := flag.NewFlagSet("demo-guest", flag.ContinueOnError)
	cache := flags.String("cache", filepath.Join(".cache", "demo"), "directory for packages that were downloaded")
	out := flags.String("o", "", "disk image to write (default guest.raw in the cache directory)")
	agent := flags.String("agent", "", "also write an archive with QEMU's guest agent")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if *out == "" {
		*out = filepath.Join(*cache, "guest.raw")
	}
	if err := build(ctx, *out, *cache, w); err != nil || *agent == "" {
		return err
	}
	return buildAgent(ctx, *agent, *cache, w)
}
