package conformance

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cuvee-vm/cuvee/render"
)

// nasty are texts that mean something to one of those that they pass through: CUE, YAML, JSON, QEMU's options, paths,
// the shell, the runner's config.
var nasty = []string{
	"", " ", ",", ",,", "=", "a,b=c", "x,driver=pwn", ",id=pwn,", "on,secret=1", "'", `"`, `\`, `\(x)`, `"}],"x":"`, "`", "$(id)", "${HOME}", "%n", "%00", "%2e%2e%2f", "%zz", "100%",
	"a\nb", "\n-device\npwn", "\r", "\t", "a\x00b", "\x7f", "\u0085", "\u2028", "\ufeff", "é", "日本語", "🙂", "a\u0301", "İ", "\u202eabc",
	`{"resolve":"uuid.uuid"}`, `{"resolve": "x"}`, `{"fd":"qmp"}`, "json:{}", `json:{"driver":"null-co"}`, "nbd:unix:/x", "fat:rw:/etc", "file:///etc/passwd", "file:/etc/../passwd", "http://x/y?a=b,c", "HTTPS://x", "https://[::1]:99999/",
	"../", "../../etc/passwd", "/etc/shadow", "/", ".", "..", "a/../../b", "//x", "~root",
	"null", "~", "true", "yes", "on", "off", "no", "1", "-1", "0x10", "1e3", ".inf", ".nan", "2026-11-20", "<<", "!!binary x", "&a", "*a", "- x", "a: b", "# x", "---", "...", "|", ">",
	"-S", "--", "-incoming", "@file", "_|_", "string", "<resourceVersion>", "{}", "[]", "1Mi", "1.5Gi", "1e400", "9999999999999999999Ti", "0", "-1Gi", "0.001k", "1m", "08", "+1",
	"52:54:00:00:00:01", "ff:ff:ff:ff:ff:ff", "255.255.255.255/30", "999.1.1.1/8", "br0", "br0,helper=/x", "host", "host,", "host,+a,-b,c=d", "host,+kvm=off", "qemu64,enforce", "max,+x,+x", "EPYC,x=1,-x",
	"local-path", "..data", "config.json", "disk-0", "runner-data", "utc", "localtime",
}

// other are values that are no text.
func other(r *rand.Rand) any {
	values := []any{
		nil, true, false, 0, 1, -1, 2, 3, 16, 255, 256, 65535, 65536, 1 << 31, -1 << 31, int64(1) << 53, int64(1)<<62 + 1, 0.5, -0.5, 1.5e300, 1e20,
		map[string]any{}, []any{}, map[string]any{"resolve": "uuid.uuid"}, map[string]any{"fd": "qmp"}, []any{nil}, []any{map[string]any{}}, map[string]any{"": ""},
	}
	return values[r.IntN(len(values))]
}

func text(r *rand.Rand, old string) string {
	n := nasty[r.IntN(len(nasty))]
	switch r.IntN(8) {
	case 0:
		return old + n
	case 1:
		return n + old
	case 2:
		at := r.IntN(len(old) + 1)
		return old[:at] + n + old[at:]
	case 3:
		return strings.Repeat(n+"x", 1+r.IntN(400))
	}
	return n
}

// slot is a place in a document: a field or an entry of a list.
type slot struct {
	path string
	get  func() any
	set  func(any)
	del  func()
}

// slotsOf lists all places in a document.
func slotsOf(path string, v any, found []slot) []slot {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range sorted(v) {
			at := path + "." + k
			found = append(found, slot{at, func() any { return v[k] }, func(x any) { v[k] = x }, func() { delete(v, k) }})
			found = slotsOf(at, v[k], found)
		}
	case []any:
		for i := range v {
			at := path + "[]"
			found = append(found, slot{at, func() any { return v[i] }, func(x any) { v[i] = x }, func() { v[i] = nil }})
			found = slotsOf(at, v[i], found)
		}
	}
	return found
}

// pool has the values of all samples by their places, to cross samples with.
type pool map[string][]any

func newPool(samples map[string]sample) pool {
	p := make(pool)
	for _, name := range sorted(samples) {
		for _, s := range slotsOf("", samples[name].doc.Object, nil) {
			p[s.path] = append(p[s.path], s.get())
		}
	}
	return p
}

// mutate returns a document that differs from the given one in a few places.
func (p pool) mutate(r *rand.Rand, object map[string]any) map[string]any {
	object, _ = copied(object).(map[string]any)
	for range 1 + r.IntN(4) {
		all := slotsOf("", object, nil)
		if len(all) == 0 {
			return object
		}
		p.change(r, all[r.IntN(len(all))])
	}
	return object
}

// change changes the document at one place.
func (p pool) change(r *rand.Rand, at slot) {
	old := at.get()
	switch r.IntN(10) {
	case 0, 1, 2:
		// What another sample has there; nothing is more likely to be valid.
		if values := p[at.path]; len(values) > 0 {
			at.set(copied(values[r.IntN(len(values))]))
		}
	case 3, 4:
		p.extend(r, at)
	case 5:
		at.del()
	case 6:
		at.set(other(r))
	default:
		s, ok := old.(string)
		if ok {
			at.set(text(r, s))
			return
		}
		p.extend(r, at)
	}
}

// extend adds a field that other samples have, or that nobody has, or entries.
func (p pool) extend(r *rand.Rand, at slot) {
	switch v := at.get().(type) {
	case map[string]any:
		if r.IntN(4) == 0 {
			v[text(r, "")] = text(r, "")
			return
		}
		fields := make(map[string]string)
		for path := range p {
			if rest, ok := strings.CutPrefix(path, at.path+"."); ok && !strings.ContainsAny(rest, ".[") {
				fields[rest] = path
			}
		}
		if names := sorted(fields); len(names) > 0 {
			name := names[r.IntN(len(names))]
			values := p[fields[name]]
			v[name] = copied(values[r.IntN(len(values))])
		}
	case []any:
		if len(v) == 0 {
			at.set([]any{other(r)})
			return
		}
		for range 1 + r.IntN(8) {
			v = append(v, copied(v[r.IntN(len(v))]))
		}
		at.set(v)
	}
}

func copied(v any) any {
	switch v := v.(type) {
	case map[string]any:
		c := make(map[string]any, len(v))
		for k, x := range v {
			c[k] = copied(x)
		}
		return c
	case []any:
		c := make([]any, len(v))
		for i, x := range v {
			c[i] = copied(x)
		}
		return c
	}
	return v
}

// mutant is a mutated sample as it would be read from a file.
func mutant(t testing.TB, p pool, samples map[string]sample, seed uint64) (sample, bool) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	names := sorted(samples)
	s := samples[names[seed%uint64(len(names))]]
	text, err := json.Marshal(p.mutate(r, s.doc.Object))
	if err != nil {
		t.Fatal(err)
	}
	docs, err := render.Decode("mutant.yaml", text)
	if err != nil || len(docs) != 1 {
		return sample{}, false
	}
	return sample{text: text, doc: docs[0], cluster: s.cluster}, true
}
