package main

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
)

// sources is this program, so that the disk is built again when the program that builds it changes.
//
//go:embed *.go guest
var sources embed.FS

// build writes the disk image to out, unless out was already built from the same packages by the
// same program.
func build(ctx context.Context, out, cache string, w io.Writer) error {
	packages, err := findPackages(ctx)
	if err != nil {
		return err
	}
	digest, err := inputDigest(packages)
	if err != nil {
		return err
	}
	stamp := out + ".inputs"
	if upToDate(out, stamp, digest) {
		fmt.Fprintf(w, "%s is up to date\n", out)
		return nil
	}
	for _, p := range packages {
		fmt.Fprintf(w, "package %s %s\n", p.name, p.version)
	}
	contents, err := unpack(ctx, packages, cache)
	if err != nil {
		return err
	}
	files, err := bootFiles(contents)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return fmt.Errorf("make the image's directory: %w", err)
	}
	// The stamp of an older image must not outlive the image that it describes.
	if err := os.Remove(stamp); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("remove the old stamp: %w", err)
	}
	finish := func(dir, image string) error { return installBIOS(ctx, contents, dir, image) }
	if err := writeDisk(out, files, finish); err != nil {
		return fmt.Errorf("write %s: %w", out, err)
	}
	if err := os.WriteFile(stamp, []byte(digest), 0o644); err != nil {
		return fmt.Errorf("write the stamp: %w", err)
	}
	fmt.Fprintf(w, "%s is ready\n", out)
	return nil
}

// inputDigest names everything that the image is made of.
func inputDigest(packages []pkg) (string, error) {
	h := sha256.New()
	for _, p := range packages {
		fmt.Fprintln(h, p.name, p.version)
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == "github.com/diskfs/go-diskfs" {
				fmt.Fprintln(h, m.Path, m.Version)
			}
		}
	}
	err := fs.WalkDir(sources, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(name, "_test.go") {
			return err
		}
		content, err := sources.ReadFile(name)
		if err != nil {
			return err
		}
		fmt.Fprintln(h, name, len(content))
		_, err = h.Write(content)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("read the embedded sources: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// upToDate tells whether out is an image that was completed with the given digest.
func upToDate(out, stamp, digest string) bool {
	if _, err := os.Stat(out); err != nil {
		return false
	}
	have, err := os.ReadFile(stamp)
	return err == nil && string(have) == digest
}
