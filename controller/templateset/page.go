package templateset

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Status is what the page says.
type Status struct {
	// Directory has the site's files.
	Directory string `json:"directory,omitempty"`
	// Settings is the file that settings are from, too.
	Settings string `json:"settings,omitempty"`
	// Revision is that of the site's files in use, Since when they were taken.
	Revision string    `json:"revision,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	// Packages are the packages in use.
	Packages []PackageStatus `json:"packages"`
	// Checking is the revision of files that are being looked at.
	Checking string `json:"checking,omitempty"`
	// Problem is why the files of the directory are not those in use.
	Problem *Problem `json:"problem,omitempty"`
}

// PackageStatus is a package in use.
type PackageStatus struct {
	Name       string `json:"name"`
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Revision   string `json:"revision"`
}

// Status is what there is to say now.
func (s *Store) Status() Status {
	now := s.now()
	out := Status{Directory: s.o.Directory, Revision: now.revision, Since: now.since, Checking: now.checking, Problem: now.problem, Packages: []PackageStatus{}}
	if s.o.Settings != nil {
		out.Settings = s.o.Settings.Name()
	}
	for _, p := range now.packages {
		out.Packages = append(out.Packages, PackageStatus{Name: p.Name, APIVersion: p.Set.Kind.APIVersion(), Kind: p.Set.Kind.Kind, Revision: p.Revision})
	}
	return out
}

// ServeHTTP is the page /templates: text, or JSON for those who accept that.
func (s *Store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "this page can only be read", http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	status := s.Status()
	if strings.Contains(r.Header.Get("Accept"), "application/json") {
		w.Header().Set("Content-Type", "application/json")
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		// Nobody is there to be told of an error but who it would be sent to.
		_ = enc.Encode(status)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprint(w, status)
}

// String is the page as text.
func (s Status) String() string {
	var b strings.Builder
	line := func(name string, value any) { fmt.Fprintf(&b, "%-10s %v\n", name, value) }
	if s.Directory == "" {
		line("directory", "none, the built-in templates are in use")
	} else {
		line("directory", s.Directory)
	}
	if s.Settings != "" {
		line("settings", s.Settings)
	}
	if len(s.Packages) == 0 {
		line("revision", "none, nothing is rendered")
	} else {
		line("revision", s.Revision)
		line("since", s.Since.UTC().Format(time.RFC3339))
	}
	for _, p := range s.Packages {
		line("package", fmt.Sprintf("%s %s for %s of %s", p.Name, p.Revision, p.Kind, p.APIVersion))
	}
	if s.Checking != "" {
		line("checking", s.Checking)
	}
	p := s.Problem
	if p == nil {
		return b.String()
	}
	b.WriteString("\nThe files of the directory are not in use.\n")
	if p.Revision != "" {
		line("refused", p.Revision)
	}
	line("since", p.Since.UTC().Format(time.RFC3339))
	if p.File != "" {
		line("file", p.File)
	}
	if p.Line > 0 {
		line("line", p.Line)
	}
	line("reason", p.Reason)
	if p.Object != "" {
		line("first", p.Object)
	}
	return b.String()
}
