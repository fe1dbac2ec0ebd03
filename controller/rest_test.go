package controller_test

import (
	"io/fs"
	"sync/atomic"
	"testing"

	"github.com/cuvee-vm/cuvee/controller"
)

// counted is a file system that counts how often files are opened.
type counted struct {
	fs.FS
	opened atomic.Int64
}

func (c *counted) Open(name string) (fs.File, error) {
	c.opened.Add(1)
	return c.FS.Open(name)
}

// What is compiled for a kind that the cluster does not have is not kept: it is compiled when the kind is there.
func TestKindAtRest(t *testing.T) {
	c := newNamespace(t)
	c.removeParcels()
	files := &counted{FS: parcelFiles(t)}
	p := loadParcels(t, files)
	loaded := files.opened.Load()
	c.start(controller.Fixed{vmPackage(t), p})
	c.create(vmManifest, "web")
	c.applied("web")
	if n := files.opened.Load(); n != loaded {
		t.Errorf("files were opened %d times for a kind that is not there, want none", n-loaded)
	}
	c.installParcels()
	c.parcel("late", "objects: {a: {apiVersion: v1, kind: ConfigMap, metadata: {name: late}, data: {v: '1'}}}")
	c.parcelSays("late", "True", "Applied")
	if files.opened.Load() == loaded {
		t.Error("what was compiled for a kind that was not there was kept")
	}
}
