package controller

import (
	"io/fs"

	"github.com/cuvee-vm/cuvee/render"
)

// Fixed is a source of packages that never change.
type Fixed []Package

// Current are the packages.
func (f Fixed) Current() []Package { return f }

// Changed never tells anything.
func (f Fixed) Changed() <-chan struct{} { return nil }

// Load loads one template package of a CUE module, for example "vm", with a site's files laid over it; site may be nil.
func Load(module, site fs.FS, siteName, name string) (Package, error) {
	set, err := render.Load(render.Source{Module: module, Package: "templates/" + name, Site: site, SiteName: siteName, Many: true})
	if err != nil {
		return Package{}, err
	}
	return Package{Name: name, Owner: "cuvee." + name, Set: set, Revision: set.Revision}, nil
}
