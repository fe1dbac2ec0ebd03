package controller_test

import (
	"strings"
	"testing"
)

// Templates that do not render a resource, or make what cannot be applied, leave alone what it has, and are not tried again and again: the
// condition says where they are wrong, and it is over as soon as they render.
func TestTemplateError(t *testing.T) {
	c := newNamespace(t)
	c.installParcels()
	c.start(one(parcelPackage(t, `
if input.spec.breaks != _|_ {
	objects: a: data: v: input.spec.breaks
}
`)))
	const (
		object  = `a: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {v: '%s'}}`
		service = `s: {apiVersion: v1, kind: Service, metadata: {name: s}}`
		good    = "objects: {" + object + "}"
	)
	cases := map[string]struct{ spec, value, want string }{
		"Conflict": {good + "\nbreaks: other", "after", "extra0.cue:"},
		"NoMode":   {good + "\npolicy: {a: {mode: often}}", "after", `policy.a.mode "often" is none`},
		// What is beside it is applied, so it has to be as it was.
		"KindNotInMakes": {"objects: {" + object + ", " + service + "}", "before", "objects.s is of a kind that is not in makes: v1 Service"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := &cluster{T: t, namespace: c.namespace, agent: c.agent}
			c.parcel("p", good, "before")
			c.parcelSays("p", "True", "Applied")
			c.quiet()
			mark := c.mark()
			c.parcel("p", tc.spec, tc.value)
			if m := c.parcelSays("p", "False", "TemplateError"); !strings.Contains(m, tc.want) {
				t.Errorf("the message is %q, want it to have %q", m, tc.want)
			}
			if s, _, _ := condition(c.getParcel("p"), "Stalled"); s != "True" {
				t.Errorf("Stalled is %q", s)
			}
			c.quiet()
			statuses := 0
			for _, w := range c.writes(mark) {
				if w.Resource != "parcels" {
					t.Errorf("an object was touched: %s", w)
				}
				statuses++
			}
			if statuses > 2 {
				t.Errorf("the status was written %d times", statuses)
			}
			if got := c.value("a"); got != "before" {
				t.Errorf("the object is %v", got)
			}
			c.parcel("p", good, "after")
			c.parcelSays("p", "True", "Applied")
			if got := c.value("a"); got != "after" {
				t.Errorf("once the templates render, the object is %v", got)
			}
		})
	}
}
