package render

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/cuecontext"
	cuejson "cuelang.org/go/encoding/json"
	cueyaml "cuelang.org/go/encoding/yaml"
)

// Input is what one render is made from.
type Input struct {
	// Document is the custom resource.
	Document Document
	// Observed are the objects that were found in the cluster, by the key of [Lookup]; nil is a dry run.
	Observed map[string][]map[string]any
	// Engine is what only a running controller knows; nil is a dry run.
	Engine *Engine
	// Values are filled in at the root of the templates, for overlays that need to be told something.
	Values map[string]any
}

// Engine is what a controller tells the templates.
type Engine struct {
	// ResourceVersion is that of the custom resource.
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Generation is the custom resource's metadata.generation.
	Generation int64 `json:"generation,omitempty"`
	// Now is the time, RFC 3339.
	Now string `json:"now,omitempty"`
	// Random is a new random text of 128 bits.
	Random string `json:"random,omitempty"`
}

// Generate says which certificate a Secret has to have.
type Generate struct {
	// DNSNames are what the certificate is for.
	DNSNames []string `json:"dnsNames"`
	// ValidFor and RenewBefore are Go durations: how long it is valid, and how long before its end there is another one.
	ValidFor    string `json:"validFor"`
	RenewBefore string `json:"renewBefore"`
}

// Lookup says which objects of the cluster the templates want to see.
type Lookup struct {
	APIVersion   string            `json:"apiVersion"`
	Kind         string            `json:"kind"`
	When         bool              `json:"when"`
	Name         string            `json:"name,omitempty"`
	Names        []string          `json:"names,omitempty"`
	Selector     map[string]string `json:"selector,omitempty"`
	Fields       []string          `json:"fields,omitempty"`
	MetadataOnly bool              `json:"metadataOnly"`
}

// Policy says how an object is applied; see #Policy in the templates.
type Policy struct {
	Mode        string `json:"mode"`
	Prune       bool   `json:"prune"`
	Wave        int    `json:"wave"`
	Subresource string `json:"subresource,omitempty"`
	// Follows are paths of fields that are applied along with others only, such as spec.volumeName.
	Follows []string `json:"follows,omitempty"`
	// Reason is what the condition Ready gives as its reason if the object cannot be applied; empty leaves it to the controller.
	Reason string `json:"reason,omitempty"`
}

// Along is where a field of the status comes from that is written along with others only: the time, or the resourceVersion of an
// object, by its key.
type Along struct {
	Time              bool   `json:"time,omitempty"`
	ResourceVersionOf string `json:"resourceVersionOf,omitempty"`
}

// Condition is a condition of the custom resource, as the templates have it.
type Condition struct {
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Object is a rendered manifest.
type Object struct {
	// Key is the object's role in the templates.
	Key string
	// Policy says how it is applied.
	Policy Policy
	// JSON is the manifest, with sorted keys.
	JSON []byte
}

// Result is what the templates make of an input.
type Result struct {
	// Objects are the manifests, in the templates' order.
	Objects []Object
	// Observe says what the templates want to see of the cluster, by key.
	Observe map[string]Lookup
	// Generate says which of the objects, by key, are Secrets that have to have a certificate.
	Generate map[string]Generate
	// Status is the manager's part of the status, as JSON.
	Status []byte
	// Conditions are the manager's conditions, by type.
	Conditions map[string]Condition
	// Metrics are numbers about the custom resource, by name.
	Metrics map[string]float64
	// Log are values for the lines of a log about the custom resource, by name: texts, numbers and booleans.
	Log map[string]any
	// Reserve is status, as JSON, that has to be stored before any object is applied; empty if there is none.
	Reserve []byte
	// Wake is after how long to render again even if nothing has changed; 0 means not at all.
	Wake time.Duration
	// Series are entries of metrics of the whole kind, by key.
	Series map[string]Series
	// Along are fields of the status that are no reason to write it by themselves, by name.
	Along map[string]Along
	// Hold says that what was made stays as it is: nothing is applied or removed.
	Hold bool
	// Parting is what Events say when a custom resource that was deleted goes, by their reasons.
	Parting map[string]Parting
	// Done says that a custom resource that is being deleted may go.
	Done bool
}

// Parting is an Event about a custom resource that has gone.
type Parting struct {
	Warning bool   `json:"warning"`
	Message string `json:"message"`
}

// Render checks the input and renders it. The error is [Faults] if the input is refused.
func (s *Set) Render(in Input) (*Result, error) {
	c, err := s.awake()
	if err != nil {
		return nil, err
	}
	clean, found := s.check(in.Document)
	root := c.fill(clean, in)
	// What the contract finds is not all: the rest is looked at, too, so that one run tells everything.
	if len(found.faults) > 0 {
		c.checkRules(clean, found)
	}
	found.further(decodeFaults(root.LookupPath(faultsPath)), false)
	if len(found.faults) > 0 {
		return nil, found.faults.sorted()
	}
	return result(root)
}

// Check compares a custom resource with its contract, field by field, without rendering it. Where it finds faults it also
// tries the rules of the kind; otherwise [Set.Render] does.
func (s *Set) Check(d Document) Faults {
	clean, found := s.check(d)
	if len(found.faults) == 0 {
		return nil
	}
	// Faults that are known are worth telling without the others.
	if c, err := s.awake(); err == nil {
		c.checkRules(clean, found)
	}
	return found.faults.sorted()
}

// checkRules looks for what breaks the rules of the kind, which concern more than one field.
func (c *compiled) checkRules(clean map[string]any, found *reporter) {
	if c.rules.Exists() {
		found.further(decodeFaults(c.rules.FillPath(inputPath, c.value(clean)).LookupPath(faultsPath)), true)
	}
}

// check compares a custom resource with its contract. It returns the part that templates see, without what is wrong.
func (s *Set) check(d Document) (map[string]any, *reporter) {
	found := newReporter(d)
	checked, _ := s.contract.check("", clean(d.Object), found)
	object, _ := checked.(map[string]any)
	return object, found
}

// fill puts everything into the templates at once: each FillPath evaluates the whole anew.
func (c *compiled) fill(clean map[string]any, in Input) cue.Value {
	values := map[string]any{"input": clean}
	if len(in.Observed) > 0 {
		observed := map[string]any{}
		for k, objects := range in.Observed {
			list := make([]any, len(objects))
			for i, o := range objects {
				list[i] = o
			}
			observed[k] = list
		}
		values["observed"] = observed
	}
	if in.Engine != nil {
		engine := map[string]any{}
		if in.Engine.Generation > 0 {
			engine["generation"] = in.Engine.Generation
		}
		for k, v := range map[string]string{"resourceVersion": in.Engine.ResourceVersion, "now": in.Engine.Now, "random": in.Engine.Random} {
			if v != "" {
				engine[k] = v
			}
		}
		values["engine"] = engine
	}
	for k, v := range in.Values {
		values[k] = v
	}
	return c.root.FillPath(cue.Path{}, c.value(values))
}

func (c *compiled) value(v any) cue.Value {
	return c.ctx.BuildExpr(expression(v))
}

func decodeFaults(v cue.Value) []Fault {
	var out []Fault
	add := func(v cue.Value) {
		path, err := v.LookupPath(cue.ParsePath("path")).String()
		if err != nil {
			return
		}
		message, err := v.LookupPath(cue.ParsePath("message")).String()
		if err != nil {
			return
		}
		out = append(out, Fault{Path: path, Message: message})
	}
	if l, err := v.List(); err == nil {
		for l.Next() {
			add(l.Value())
		}
		return out
	}
	if it, err := v.Fields(); err == nil {
		for it.Next() {
			add(it.Value())
		}
	}
	return out
}

func result(root cue.Value) (*Result, error) {
	r := &Result{}
	objects := root.LookupPath(objectsPath)
	if err := objects.Validate(cue.Concrete(true), cue.Final()); err != nil {
		// The cause may lie outside of the objects, in a part that they are made from.
		return nil, explainCUE("render", errors.Join(root.Validate(cue.Concrete(true), cue.Final()), err))
	}
	it, err := objects.Fields()
	if err != nil {
		return nil, explainCUE("render", err)
	}
	for path, to := range map[string]any{"observe": &r.Observe, "conditions": &r.Conditions, "metrics": &r.Metrics, "done": &r.Done} {
		if err := decode(root, path, to); err != nil {
			return nil, err
		}
	}
	if r.Status, err = root.LookupPath(statusPath).MarshalJSON(); err != nil {
		return nil, explainCUE("render status", err)
	}
	if err := r.decodeOptional(root); err != nil {
		return nil, err
	}
	for it.Next() {
		o := Object{Key: it.Selector().Unquoted()}
		if o.Policy, err = policy(root.LookupPath(cue.MakePath(cue.Str("policy"), it.Selector()))); err != nil {
			return nil, err
		}
		if o.JSON, err = it.Value().MarshalJSON(); err != nil {
			return nil, explainCUE("render "+o.Key, err)
		}
		r.Objects = append(r.Objects, o)
	}
	return r, nil
}

// decodeOptional reads what a template package may leave out.
func (r *Result) decodeOptional(root cue.Value) error {
	if v := root.LookupPath(reservePath); v.Exists() {
		data, err := v.MarshalJSON()
		if err != nil {
			return explainCUE("render reserve", err)
		}
		if string(data) != "{}" {
			r.Reserve = data
		}
	}
	for path, to := range map[string]any{"generate": &r.Generate, "along": &r.Along, "hold": &r.Hold, "log": &r.Log, "series": &r.Series, "parting": &r.Parting} {
		if !root.LookupPath(cue.ParsePath(path)).Exists() {
			continue
		}
		if err := decode(root, path, to); err != nil {
			return err
		}
	}
	for key, e := range r.Series {
		if err := e.valid(); err != nil {
			return fmt.Errorf("render series.%s: %w", key, err)
		}
	}
	v := root.LookupPath(wakePath)
	if !v.Exists() {
		return nil
	}
	text, err := v.String()
	if err != nil {
		return explainCUE("render wake", err)
	}
	if r.Wake, err = time.ParseDuration(text); err != nil || r.Wake < 0 {
		return fmt.Errorf("render wake: %q is not a duration such as 90s", text)
	}
	return nil
}

// policy reads field by field: to iterate over a struct is dear in CUE.
func policy(v cue.Value) (p Policy, err error) {
	read := func(name string, to any) {
		if f := v.LookupPath(cue.MakePath(cue.Str(name))); f.Exists() && err == nil {
			err = f.Decode(to)
		}
	}
	read("mode", &p.Mode)
	read("prune", &p.Prune)
	read("wave", &p.Wave)
	read("subresource", &p.Subresource)
	read("follows", &p.Follows)
	read("reason", &p.Reason)
	if err != nil {
		return p, explainCUE("render policy", err)
	}
	return p, nil
}

func decode(root cue.Value, path string, to any) error {
	data, err := root.LookupPath(cue.ParsePath(path)).MarshalJSON()
	if err != nil {
		return explainCUE("render "+path, err)
	}
	if err := json.Unmarshal(data, to); err != nil {
		return fmt.Errorf("render %s: %w", path, err)
	}
	return nil
}

// YAML is the manifest in YAML, the same bytes as the stock cue command writes.
func (o Object) YAML() ([]byte, error) {
	expr, err := cuejson.Extract(o.Key, o.JSON)
	if err != nil {
		return nil, err
	}
	// A context of its own: what is compiled stays in its context for ever.
	return cueyaml.Encode(newContext().BuildExpr(expr))
}

// newContext makes a context that sorts fields: equal inputs make equal bytes, however their fields are ordered.
func newContext() *cue.Context {
	return cuecontext.New(cuecontext.CUE_DEBUG("sortfields"))
}
