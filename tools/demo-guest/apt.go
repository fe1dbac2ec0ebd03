package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// errPackages says that a Debian package could not be had. It is an error of the machine, not of the builder.
var errPackages = errors.New("Debian packages are not available")

// kernelPackage depends on the package of the current kernel for virtual machines. That kernel is
// smaller than the general one and is built for quick starts.
const kernelPackage = "linux-image-cloud-amd64"

// otherPackages are the guest's programs and the boot loaders. The last three are for a legacy BIOS.
var otherPackages = []string{"busybox-static", "systemd-boot-efi", "syslinux", "syslinux-common", "mtools"}

// pkg is a version of a Debian package.
type pkg struct{ name, version string }

// findPackages returns the packages that the guest is made of, in the version that apt would install.
func findPackages(ctx context.Context) ([]pkg, error) {
	for _, tool := range []string{"apt-get", "apt-cache", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, fmt.Errorf("%w: %s is missing: this needs Debian, or a system made from it, with apt and dpkg", errPackages, tool)
		}
	}
	versions, err := show(ctx, append([]string{kernelPackage}, otherPackages...))
	if err != nil {
		return nil, err
	}
	kernel := kernelDependency.FindStringSubmatch(versions[kernelPackage]["Depends"])
	if kernel == nil {
		return nil, fmt.Errorf("%w: %s depends on no kernel: %q", errPackages, kernelPackage, versions[kernelPackage]["Depends"])
	}
	packages := []pkg{{kernel[1], kernel[2]}}
	for _, name := range otherPackages {
		packages = append(packages, pkg{name, versions[name]["Version"]})
	}
	return packages, nil
}

// kernelDependency matches what kernelPackage depends on, as "name (= version)".
var kernelDependency = regexp.MustCompile(`(linux-image-[0-9]\S*) \(= ([^)]+)\)`)

// show returns, by package, the control fields of the version that apt would install. It asks for all in
// one call, because apt takes long to read its lists.
func show(ctx context.Context, names []string) (map[string]map[string]string, error) {
	args := append([]string{"show", "--no-all-versions"}, names...)
	out, callErr := command(ctx, "", nil, "apt-cache", args...)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	packages := map[string]map[string]string{}
	for stanza := range strings.SplitSeq(string(out), "\n\n") {
		fields := map[string]string{}
		for line := range strings.Lines(stanza) {
			if key, value, ok := strings.Cut(line, ": "); ok && !strings.HasPrefix(line, " ") {
				fields[key] = strings.TrimSpace(value)
			}
		}
		packages[fields["Package"]] = fields
	}
	// What is missing says more than apt's exit code.
	for _, name := range names {
		if packages[name] == nil {
			return nil, fmt.Errorf("%w: apt knows no %s: run `apt-get update` as root, with a Debian package source for amd64", errPackages, name)
		}
	}
	if callErr != nil {
		return nil, fmt.Errorf("%w: %w", errPackages, callErr)
	}
	return packages, nil
}

// fetch returns the path of the package's .deb file below dir, downloading it when it is not there.
func (p pkg) fetch(ctx context.Context, dir string) (string, error) {
	path, err := p.deb(dir)
	if err != nil || path != "" {
		return path, err
	}
	// apt runs as root and would drop to a user that may not write here.
	if _, err := command(ctx, dir, nil, "apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", p.name+"="+p.version); err != nil {
		return "", fmt.Errorf("%w: download %s %s (`apt-get update` may help): %w", errPackages, p.name, p.version, err)
	}
	path, err = p.deb(dir)
	if err == nil && path == "" {
		err = fmt.Errorf("%w: apt-get download made no file for %s %s", errPackages, p.name, p.version)
	}
	return path, err
}

// deb returns the path of the package's file in dir, or "" when it is not there.
func (p pkg) deb(dir string) (string, error) {
	found, err := filepath.Glob(filepath.Join(dir, p.name+"_*.deb"))
	if err != nil {
		return "", err
	}
	for _, path := range found {
		// The file name carries the version percent-encoded, because of the colon of an epoch.
		parts := strings.Split(filepath.Base(path), "_")
		version, err := url.PathUnescape(parts[1])
		if err == nil && version == p.version {
			return path, nil
		}
	}
	return "", nil
}

// command runs a program in dir, with additions to the environment, and returns what it wrote to standard
// output. An error says what it last wrote to standard error.
func command(ctx context.Context, dir string, env []string, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "LC_ALL=C"), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.Bytes(), fmt.Errorf("%s: %w: %s", filepath.Base(name), err, lastLine(stderr.String()))
	}
	return stdout.Bytes(), nil
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}
