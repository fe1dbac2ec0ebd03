package render

import (
	"fmt"
	"time"

	"cuelang.org/go/cue"
)

// Made is a kind of object that templates make.
type Made struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// loadKinds reads what templates say about themselves without an input: the kinds that they make and look at. Watches and
// permissions follow from it.
func (s *Set) loadKinds(root cue.Value) error {
	if v := root.LookupPath(cue.ParsePath("finalizer")); v.Exists() {
		if err := v.Decode(&s.Finalizer); err != nil {
			return explainCUE("check templates: finalizer", err)
		}
	}
	if v := root.LookupPath(cue.ParsePath("clock.step")); v.Exists() {
		var text string
		if err := v.Decode(&text); err != nil {
			return explainCUE("check templates: clock.step", err)
		}
		var err error
		if s.Step, err = time.ParseDuration(text); err != nil || s.Step < time.Second {
			return fmt.Errorf("check templates: clock.step: %q is not a duration of a second or more, such as 1m", text)
		}
	}
	if v := root.LookupPath(cue.ParsePath("passes")); v.Exists() {
		if err := v.Decode(&s.Passes); err != nil {
			return explainCUE("check templates: passes", err)
		}
		if err := s.Passes.valid(); err != nil {
			return fmt.Errorf("check templates: passes: %w", err)
		}
	}
	if v := root.LookupPath(cue.ParsePath("makes")); v.Exists() {
		if err := v.Decode(&s.Makes); err != nil {
			return explainCUE("check templates: makes", err)
		}
	}
	return s.loadWatches(root)
}

func (s *Set) loadWatches(root cue.Value) error {
	s.Watches = map[string]Lookup{}
	observe := root.LookupPath(cue.ParsePath("observe"))
	if !observe.Exists() {
		return nil
	}
	it, err := observe.Fields()
	if err != nil {
		return explainCUE("check templates: observe", err)
	}
	for it.Next() {
		key := it.Selector().Unquoted()
		var l Lookup
		for field, to := range map[string]any{"apiVersion": &l.APIVersion, "kind": &l.Kind, "metadataOnly": &l.MetadataOnly} {
			if err := it.Value().LookupPath(cue.ParsePath(field)).Decode(to); err != nil {
				return explainCUE("check templates: observe."+key+"."+field+" has to be known without an input", err)
			}
		}
		if v := it.Value().LookupPath(cue.ParsePath("fields")); v.Exists() && v.IsConcrete() {
			if err := v.Decode(&l.Fields); err != nil {
				return explainCUE("check templates: observe."+key+".fields", err)
			}
		}
		s.Watches[key] = l
	}
	return nil
}
