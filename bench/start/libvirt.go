package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"time"
)

// domainXML is the domain of libvirt (https://libvirt.org/formatdomain.html) that is the equal of testdata/start.yaml, by
// the same files: each device that the templates give a VM without a display, and none more.
//
//go:embed domain.xml
var domainXML string

// measureLibvirt starts the runner's process, and a domain of libvirt, in turns.
func measureLibvirt(ctx context.Context, o options, dir string) error {
	vm, err := prepare(ctx, o, "start.yaml", dir)
	if err != nil {
		return err
	}
	config, err := vm.writeConfig(dir)
	if err != nil {
		return err
	}
	if err := vm.firstProcess(ctx, o.runner, config); err != nil {
		return fmt.Errorf("first start of the process: %w", err)
	}
	domain, err := vm.writeDomain(dir)
	if err != nil {
		return err
	}
	virsh := func(args ...string) error {
		out, err := exec.CommandContext(ctx, "virsh", append([]string{"--quiet", "--connect", o.libvirt}, args...)...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("virsh %s: %w\n%s", args[0], err, out)
		}
		return nil
	}
	ratio, ours, theirs, err := pairs(o.pairs,
		func() (time.Duration, error) {
			p, err := startProcess(ctx, o.runner, config)
			if err != nil {
				return 0, fmt.Errorf("start of the runner: %w", err)
			}
			p.end()
			return p.took, nil
		},
		func() (time.Duration, error) {
			begin := time.Now()
			if err := virsh("create", domain); err != nil {
				return 0, err
			}
			took := time.Since(begin)
			return took, virsh("destroy", domainName)
		})
	if err != nil {
		return err
	}
	fmt.Printf("figure runner.start.vs_libvirt %.3f x\n", ratio)
	fmt.Printf("figure runner.start.beside_libvirt.ms %.1f ms\n", ours)
	fmt.Printf("figure runner.start.libvirt.ms %.1f ms\n", theirs)
	return nil
}

const domainName = "bench"

// writeDomain writes the domain's definition. Disks and variables are copies, as both kinds of VM lock theirs.
func (v *vm) writeDomain(dir string) (string, error) {
	values := map[string]string{"Name": domainName, "Program": v.program, "Type": "qemu"}
	if slices.ContainsFunc(v.argv, func(a string) bool { return strings.HasPrefix(a, "accel=kvm") }) {
		values["Type"] = "kvm"
	}
	choice, err := v.firmwareCode()
	if err != nil {
		return "", err
	}
	values["Code"] = choice
	for name, file := range map[string]string{
		"Vars": v.config.Boot.Firmware.Vars, "Disk": v.config.Boot.Images[0].Path,
	} {
		values[name] = filepath.Join(dir, "libvirt", filepath.Base(file))
		// As sparse as it is.
		if err := os.MkdirAll(filepath.Dir(values[name]), 0o755); err != nil {
			return "", err
		}
		if out, err := exec.Command("cp", "--sparse=always", file, values[name]).CombinedOutput(); err != nil {
			return "", fmt.Errorf("copy: %w\n%s", err, out)
		}
	}
	values["CloudInit"] = filepath.Join(dir, "libvirt", "cloud-init.img")
	if err := write(values["CloudInit"], v.image); err != nil {
		return "", err
	}
	t, err := template.New("domain").Option("missingkey=error").Parse(domainXML)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	if err := t.Execute(&text, values); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "libvirt", "domain.xml")
	return path, write(path, []byte(text.String()))
}

// firmwareCode is the file of the firmware that the runner chose.
func (v *vm) firmwareCode() (string, error) {
	for _, a := range v.config.Resolve[v.config.Boot.Firmware.Choice].Alternatives {
		if _, err := os.Stat(a["code"]); err == nil && strings.Contains(strings.Join(v.argv, "\n"), a["code"]) {
			return a["code"], nil
		}
	}
	return "", fmt.Errorf("the runner's firmware is not one of the config's")
}
