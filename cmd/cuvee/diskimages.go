package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/cuvee-vm/cuvee/cmd/cuvee/diskimage"
	"github.com/cuvee-vm/cuvee/render"
	"github.com/cuvee-vm/cuvee/runner"
	"github.com/cuvee-vm/cuvee/runner/content"
)

// diskImages gets what disks come from.
type diskImages struct {
	cache *diskimage.Cache
	// dir is where relative names of files begin.
	dir string
	// policies say when a registry is asked, by the name of the volume that the image would be in a pod.
	policies map[string]diskimage.Policy
}

// pullPolicies are those of the images that the pod would have as volumes.
func pullPolicies(r *render.Result) map[string]diskimage.Policy {
	policies := map[string]diskimage.Policy{}
	for _, v := range podVolumes(r) {
		if v.Image != nil {
			policies[v.Name] = diskimage.Policy(v.Image.PullPolicy)
		}
	}
	return policies
}

// fetchImages finds the container images that disks come from, which in a pod are mounted volumes, and what is at URLs with a checksum, so
// that it is fetched once for all VMs. What a disk does not need any more is not fetched.
func (h *host) fetchImages(w io.Writer, result *render.Result, cfg *runner.Config) error {
	if !fromElsewhere(cfg) {
		return nil
	}
	// Nothing of the VM runs yet: a Ctrl-C just ends it.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := diskimage.DefaultDir()
	if err != nil {
		return err
	}
	show, end := showFetching(w)
	defer end()
	images := &diskImages{cache: &diskimage.Cache{Dir: dir, Report: show}, dir: h.imageDir, policies: pullPolicies(result)}
	for id, c := range cfg.Live.Content {
		if err := images.content(ctx, &c); err != nil {
			return fmt.Errorf("disk %s: %w", c.Name, err)
		}
		cfg.Live.Content[id] = c
	}
	for _, c := range cfg.Resolve {
		if c.Kind != runner.KindDiskImage {
			continue
		}
		for _, a := range c.Alternatives {
			if a["directory"], err = images.image(ctx, a["reference"], a["path"], a["directory"]); err != nil {
				return err
			}
		}
	}
	return nil
}

// fromElsewhere says whether any disk comes from an image or a URL.
func fromElsewhere(cfg *runner.Config) bool {
	for _, c := range cfg.Resolve {
		if c.Kind == runner.KindDiskImage {
			return true
		}
	}
	return len(cfg.Live.Content) > 0
}

// content gets what a disk is filled with, if it is to be filled.
func (d *diskImages) content(ctx context.Context, c *runner.Content) error {
	state, err := content.Look(c.Path)
	if err != nil || state == content.HasContent {
		return err
	}
	if c.Image != nil {
		c.Image.Directory, err = d.image(ctx, c.Image.Reference, c.Image.Path, c.Image.Directory)
		return err
	}
	remote := strings.HasPrefix(c.URL, "http:") || strings.HasPrefix(c.URL, "https:")
	if !remote || c.Checksum == "" || c.Credentials != nil || c.CA != nil {
		return nil
	}
	file, err := d.cache.Download(ctx, content.Source{URL: c.URL, Checksum: c.Checksum, Proxy: c.Proxy})
	if err != nil {
		return err
	}
	c.URL, c.Checksum = (&url.URL{Scheme: "file", Path: file}).String(), ""
	return nil
}

// image returns the directory with an image's files, or a disk that is a file here. In a pod it would be mounted, at a path that ends with the
// name of its volume.
func (d *diskImages) image(ctx context.Context, reference, member, mounted string) (string, error) {
	if path := filepath.Join(d.dir, reference); !filepath.IsAbs(reference) {
		if _, err := os.Stat(path); err == nil {
			reference = path
		}
	}
	return d.cache.Fetch(ctx, diskimage.Image{Reference: reference, Member: member, Policy: d.policies[filepath.Base(mounted)]})
}

// showFetching shows what is being fetched.
func showFetching(w io.Writer) (show func(what string, bytes, total int64), end func()) {
	var line *progressLine
	return func(what string, bytes, total int64) {
			if line == nil || line.what != what {
				line = newProgressLine(w, what, total)
			}
			line.set(bytes)
		}, func() {
			if line != nil {
				line.end()
			}
		}
}
