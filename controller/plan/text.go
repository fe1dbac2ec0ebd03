package plan

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cuvee-vm/cuvee/controller"
	"github.com/cuvee-vm/cuvee/controller/change"
)

func gvk(apiVersion, kind string) schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(apiVersion, kind)
}

// Write prints a plan for people. What would become of many custom resources alike is told once. Their names are written with their
// namespaces if there may be several.
func (p *Plan) Write(w io.Writer, namespaces bool) error {
	var out strings.Builder
	for _, g := range groups(p.Resources) {
		g.write(&out, namespaces)
		out.WriteString("\n")
	}
	out.WriteString(p.Summary.String() + "\n")
	_, err := io.WriteString(w, out.String())
	return err
}

// group are custom resources of which the same is to be told.
type group struct {
	text    string
	members []*Resource
}

// groups puts together what reads alike, in the order of the first members.
func groups(all []*Resource) []*group {
	var out []*group
	byText := map[string]*group{}
	for _, r := range all {
		text := alike(r)
		g := byText[text]
		if g == nil {
			g = &group{text: text}
			byText[text] = g
			out = append(out, g)
		}
		g.members = append(g.members, r)
	}
	return out
}

// alike is what there is to tell of a custom resource, without what makes it an individual.
func alike(r *Resource) string { return r.describe(mark) }

// digests are texts that differ from VM to VM and say nothing to people.
var digests = regexp.MustCompile(`\b[0-9a-f]{32,64}\b`)

// mark stands for the name of a custom resource in what is told of many.
const mark = "<name>"

// shown is how many members of a group are named.
const shown = 3

func (g *group) write(out *strings.Builder, namespaces bool) {
	first := g.members[0]
	name := func(r *Resource) string {
		if namespaces {
			return r.Namespace + "/" + r.Name
		}
		return r.Name
	}
	if len(g.members) == 1 {
		fmt.Fprintf(out, "%s %s %s\n", first.Kind, name(first), first.verdict())
		out.WriteString(first.describe(""))
		return
	}
	var names []string
	for _, r := range g.members[:min(shown, len(g.members))] {
		names = append(names, name(r))
	}
	if len(g.members) > shown {
		names = append(names, "…")
	}
	fmt.Fprintf(out, "%s %ss (%s) %s\n", number(len(g.members)), first.Kind, strings.Join(names, ", "), first.verdict())
	out.WriteString(g.text)
}

func (r *Resource) verdict() string {
	switch {
	case r.State == Invalid && r.New:
		return "would not be valid; nothing would be made:"
	case r.State == Invalid:
		return "would become invalid; nothing of it would be touched:"
	case r.State == StaysInvalid:
		return "is not valid, and would not be:"
	case r.New:
		return "would be new:"
	}
	return "would change:"
}

// describe is all that is told of a custom resource, after its name. Its name is written as given; empty is as it is.
func (r *Resource) describe(name string) string {
	var out strings.Builder
	for _, f := range r.Faults {
		fmt.Fprintf(&out, "  %s\n", strings.ReplaceAll(f, "\n", "\n  "))
	}
	for _, o := range r.Objects {
		fmt.Fprintf(&out, "  %s %s %s", signs[o.Action], o.Kind, r.named(o.Name, name))
		if o.Drift {
			out.WriteString(", which somebody else has changed")
		}
		out.WriteString("\n")
		if o.Problem != "" {
			fmt.Fprintf(&out, "      %s\n", r.named(o.Problem, name))
		}
		if o.Action == controller.ActionUpdate && len(o.Fields) == 0 {
			out.WriteString("      is applied anew, with the same values\n")
		}
		for _, f := range o.Fields {
			fmt.Fprintf(&out, "      %s\n", line(f, func(text string) string { return r.named(text, name) }))
		}
	}
	for _, c := range r.Conditions {
		fmt.Fprintf(&out, "  condition %s: %s -> %s (%s) %s\n", c.Type, orNone(c.Old), c.New, c.Reason, r.named(c.Message, name))
	}
	if r.Restart != "" {
		fmt.Fprintf(&out, "  needs a restart: %s\n", r.Restart)
	}
	return out.String()
}

var signs = map[controller.Action]string{
	controller.ActionCreate: "+", controller.ActionUpdate: "~", controller.ActionDelete: "-", controller.ActionBlocked: "!",
}

// named writes the custom resource's name in a text as given, and leaves out its UID.
func (r *Resource) named(text, name string) string {
	if name == "" {
		return text
	}
	if r.uid != "" {
		text = strings.ReplaceAll(text, r.uid, "<uid>")
	}
	if r.word == nil {
		r.word = wholeWord(r.Name)
	}
	return r.word.ReplaceAllString(text, "${1}"+name+"${2}")
}

// wholeWord finds a name that is not part of a longer word.
func wholeWord(name string) *regexp.Regexp {
	return regexp.MustCompile(`(^|[^A-Za-z0-9])` + regexp.QuoteMeta(name) + `([^A-Za-z0-9]|$)`)
}

// line is a changed field: path: old -> new. Texts in it are written as rename has them.
func line(f change.Field, rename func(string) string) string {
	path, old, is := rename(f.Path), show(f.Old, rename), show(f.New, rename)
	switch {
	case f.Old == nil:
		return "+ " + path + ": " + is
	case f.New == nil:
		return "- " + path + ": " + old
	}
	return "~ " + path + ": " + old + " -> " + is
}

// longest is how many characters of a value are shown.
const longest = 160

func show(v any, rename func(string) string) string {
	var text strings.Builder
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	s := digests.ReplaceAllString(rename(strings.TrimSpace(text.String())), "<digest>")
	if r := []rune(s); len(r) > longest {
		return string(r[:longest]) + "…"
	}
	return s
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// String is the summary as a line.
func (s Summary) String() string {
	var parts []string
	add := func(n int, text string) {
		if n > 0 {
			parts = append(parts, number(n)+" "+text)
		}
	}
	add(s.Changes, "would change")
	add(s.Invalid, "would become invalid")
	add(s.StaysInvalid, "stay invalid")
	add(s.Unchanged, "would not change")
	out := s.subjects()
	switch s.Resources {
	case 0:
	case 1:
		out += ": " + strings.TrimPrefix(strings.Join(parts, ", "), "1 ")
	default:
		out += ": " + strings.Join(parts, ", ")
	}
	if s.Create+s.Update+s.Delete+s.Blocked > 0 {
		parts = nil
		add(s.Create, "made")
		add(s.Update, "changed")
		add(s.Delete, "removed")
		add(s.Blocked, "blocked")
		out += "; objects: " + strings.Join(parts, ", ")
	}
	if s.Drift > 0 {
		out += fmt.Sprintf("; changed by others: %s", number(s.Drift))
	}
	if s.Restart > 0 {
		out += fmt.Sprintf("; restart needed: %s", number(s.Restart))
	}
	if s.Live > 0 {
		out += fmt.Sprintf("; while they run: %s", number(s.Live))
	}
	return out
}

// subjects are what was looked at: 3 VMs and 1 Machine.
func (s Summary) subjects() string {
	var all, none []string
	for _, kind := range slices.Sorted(maps.Keys(s.Kinds)) {
		name := strings.ReplaceAll(kind, "VirtualMachine", "VM")
		switch n := s.Kinds[kind]; n {
		case 0:
			none = append(none, name+"s")
		case 1:
			all = append(all, "1 "+name)
		default:
			all = append(all, number(n)+" "+name+"s")
		}
	}
	if len(all) == 0 {
		return "there are no " + strings.Join(none, " or ")
	}
	return strings.Join(all, " and ")
}

// number writes a number with commas: 9,998.
func number(n int) string {
	digits := fmt.Sprint(n)
	var parts []string
	for len(digits) > 3 {
		parts = append(parts, digits[len(digits)-3:])
		digits = digits[:len(digits)-3]
	}
	parts = append(parts, digits)
	slices.Reverse(parts)
	return strings.Join(parts, ",")
}
