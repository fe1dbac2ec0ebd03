package crd_test

import (
	"cmp"
	"encoding/json"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"cuelang.org/go/cue"
	gocmp "github.com/google/go-cmp/cmp"

	"github.com/cuvee-vm/cuvee"
	"github.com/cuvee-vm/cuvee/render"
	"github.com/cuvee-vm/cuvee/render/crd"
)

// TestReaches holds the @reaches attributes, and with them the tables of docs/, to what the templates do: it changes each
// field of the good samples by itself, and looks which objects, which parts of config.json and which options of QEMU
// come out different. What cuvee viewer alone reads must change none of them.
func TestReaches(t *testing.T) {
	for _, k := range loadKinds(t) {
		set := loadTemplates(t, k)
		others := map[string]any{}
		read(t, filepath.Join("testdata", k.Name(), "others.yaml"), &others)
		untried := reachesOf(k.Definition.LookupPath(cue.MakePath(cue.Str("spec").Required())), "spec")
		schema := newServer(t, k).props
		for _, good := range goodSamples(t, k) {
			before, err := rendered(set, good.object)
			if err != nil {
				t.Fatalf("%s: %v", good.name, err)
			}
			visit(schema, "", good.object, nil, func(field string, p *props, at []any, value any) {
				want, there := untried[field]
				if !there {
					return
				}
				after, err := firstRendered(set, good.object, at, candidates(p, value, others[field]))
				if err != nil {
					// Another sample may allow a change.
					t.Logf("%s in %s: %v", field, good.name, err)
					return
				}
				delete(untried, field)
				t.Run(field, func(t *testing.T) {
					if diff := gocmp.Diff(want, changes(before, after)); diff != "" {
						t.Errorf("a change of %s reaches (-@reaches +rendered):\n%s", field, diff)
					}
				})
			})
		}
		for _, field := range slices.Sorted(maps.Keys(untried)) {
			t.Errorf("%s: no sample lets %s be changed", k.Name(), field)
		}
	}
}

// reachesOf finds the fields with an attribute, and what it says, sorted.
func reachesOf(v cue.Value, at string) map[string][]string {
	found := map[string][]string{}
	if a := v.Attribute("reaches"); a.Err() == nil {
		where := []string{}
		for i := range a.NumArgs() {
			if w, err := a.String(i); err == nil && w != "" && w != "viewer" {
				where = append(where, w)
			}
		}
		slices.Sort(where)
		found[at] = where
		// What is in it goes with it.
		if len(where) > 0 {
			return found
		}
	}
	if fields, err := v.Fields(cue.Optional(true)); err == nil {
		for fields.Next() {
			maps.Copy(found, reachesOf(fields.Value(), at+"."+fields.Selector().Unquoted()))
		}
	}
	for selector, suffix := range map[cue.Selector]string{cue.AnyIndex: "[]", cue.AnyString: ".*"} {
		if inner := v.LookupPath(cue.MakePath(selector)); inner.Exists() {
			maps.Copy(found, reachesOf(inner, at+suffix))
		}
	}
	return found
}

func loadTemplates(t *testing.T, k crd.Kind) *render.Set {
	t.Helper()
	dirs, err := filepath.Glob("../../templates/*/package.cue")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		set, err := render.Load(render.Source{
			Module:   cuvee.Files,
			Package:  path.Join("templates", filepath.Base(filepath.Dir(d))),
			Site:     os.DirFS(filepath.Join("testdata", k.Name(), "site")),
			SiteName: "site",
		})
		if err == nil && set.Kind == k.Kind {
			return set
		}
		if err != nil {
			t.Log(err)
		}
	}
	t.Fatalf("no templates of %s", k.Name())
	return nil
}

// candidates are other values for a field, the best first.
func candidates(p *props, value, other any) []any {
	switch value := value.(type) {
	case bool:
		return []any{!value}
	case int64:
		if other == nil {
			return []any{value + 1, value - 1}
		}
	case string:
		for _, e := range p.Enum {
			if other == nil && !reflect.DeepEqual(e, value) {
				return []any{e}
			}
		}
	}
	if other == nil {
		return nil
	}
	return []any{other}
}

// firstRendered renders the object with the first of the values that the contract allows.
func firstRendered(set *render.Set, object map[string]any, at []any, values []any) (map[string]string, error) {
	err := os.ErrNotExist
	for _, v := range values {
		var out map[string]string
		if out, err = rendered(set, with(object, at, v).(map[string]any)); err == nil {
			return out, nil
		}
	}
	return nil, err
}

// rendered is what a resource becomes, in pieces by the names that @reaches has for them.
func rendered(set *render.Set, object map[string]any) (map[string]string, error) {
	r, err := set.Render(render.Input{Document: render.Document{Object: object}})
	if err != nil {
		return nil, err
	}
	pieces := map[string]string{}
	for _, o := range r.Objects {
		name, err := pieceName(o)
		if err != nil {
			return nil, err
		}
		if o.Key != "configMap" {
			pieces[name] += string(o.JSON)
			continue
		}
		if err := configPieces(o.JSON, pieces); err != nil {
			return nil, err
		}
	}
	return pieces, nil
}

// pieceName is the key of an object; all claims of disks, of which there may be several, are "claim".
func pieceName(o render.Object) (string, error) {
	var m struct{ Kind string }
	err := json.Unmarshal(o.JSON, &m)
	if m.Kind == "PersistentVolumeClaim" {
		return "claim", err
	}
	return o.Key, err
}

// configPieces takes config.json apart: its parts live and boot, and each option of QEMU.
func configPieces(manifest []byte, pieces map[string]string) error {
	var m struct{ Data map[string]string }
	if err := json.Unmarshal(manifest, &m); err != nil {
		return err
	}
	var config struct {
		Live    json.RawMessage
		Boot    map[string]json.RawMessage
		Resolve map[string]struct{ Alternatives []map[string]any }
	}
	if err := json.Unmarshal([]byte(m.Data["config.json"]), &config); err != nil {
		return err
	}
	var args []struct{ Option string }
	var texts []json.RawMessage
	if err := cmp.Or(json.Unmarshal(config.Boot["args"], &args), json.Unmarshal(config.Boot["args"], &texts)); err != nil {
		return err
	}
	resolve, err := json.Marshal(config.Resolve)
	if err != nil {
		return err
	}
	boot, err := json.Marshal(config.Boot)
	if err != nil {
		return err
	}
	pieces["config.live"] = string(config.Live)
	pieces["config.boot"] = string(boot) + string(resolve)
	for i, a := range args {
		text := string(texts[i])
		// Where the runner fills something in, the alternatives are part of the option.
		for name, r := range config.Resolve {
			for _, alternative := range r.Alternatives {
				for key, value := range alternative {
					placeholder := `"` + name + "." + key + `"`
					if s, ok := value.(string); ok && strings.Contains(text, placeholder) {
						text = strings.ReplaceAll(text, placeholder, placeholder+"="+s)
					}
				}
			}
		}
		pieces["-"+a.Option] += text
	}
	return nil
}

// changes are the names of the pieces that differ, sorted.
func changes(before, after map[string]string) []string {
	differ := []string{}
	for name := range before {
		if before[name] != after[name] {
			differ = append(differ, name)
		}
	}
	for name := range after {
		if _, there := before[name]; !there {
			differ = append(differ, name)
		}
	}
	slices.Sort(differ)
	return differ
}
