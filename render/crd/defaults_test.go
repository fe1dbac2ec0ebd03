package crd_test

import (
	"encoding/json"
	"slices"
	"testing"

	"cuelang.org/go/cue"
	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/cuvee-vm/cuvee/render/crd"
)

// TestDefaults holds the @default attributes of the settings to what the templates do: a field with that value becomes
// what it becomes when it is left out.
func TestDefaults(t *testing.T) {
	for _, k := range loadKinds(t) {
		set := loadTemplates(t, k)
		untried := settingsDefaults(t, k)
		schema := newServer(t, k).props
		for _, good := range goodSamples(t, k) {
			visit(schema, "", good.object, nil, func(field string, _ *props, at []any, _ any) {
				value, there := untried[field]
				if !there {
					return
				}
				given, errGiven := rendered(set, with(good.object, at, value).(map[string]any))
				leftOut, errLeftOut := rendered(set, without(good.object, at))
				if errGiven != nil || errLeftOut != nil {
					// The other fields of this sample do not go with the default.
					return
				}
				delete(untried, field)
				if diff := gocmp.Diff(leftOut, given); diff != "" {
					t.Errorf("%s: %v is not what holds where %s is left out (-left out +given):\n%s", k.Name(), value, field, diff)
				}
			})
		}
		for field := range untried {
			t.Errorf("%s: no sample lets %s be left out", k.Name(), field)
		}
	}
}

// settingsDefaults are the values of the settings that are the default of a field, by field.
func settingsDefaults(t *testing.T, k crd.Kind) map[string]any {
	t.Helper()
	found := map[string]any{}
	k.Templates.LookupPath(cue.ParsePath("settings")).Walk(func(v cue.Value) bool {
		a := v.Attribute("default")
		for i := range a.NumArgs() {
			field, err := a.String(i)
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(v)
			if err != nil {
				t.Fatalf("the default of %s: %v", field, err)
			}
			var value any
			if err := utiljson.Unmarshal(text, &value); err != nil {
				t.Fatal(err)
			}
			found[field] = value
		}
		return true
	}, nil)
	return found
}

// without is a copy of the object that lacks the field at a place.
func without(object map[string]any, at []any) map[string]any {
	var parent any = object
	for _, step := range at[:len(at)-1] {
		switch step := step.(type) {
		case string:
			parent = parent.(map[string]any)[step]
		case int:
			parent = parent.([]any)[step]
		}
	}
	changed := runtime.DeepCopyJSON(parent.(map[string]any))
	delete(changed, at[len(at)-1].(string))
	return with(object, slices.Clone(at[:len(at)-1]), changed).(map[string]any)
}
