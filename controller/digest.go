package controller

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/cuvee-vm/cuvee/controller/apiserver"
	"github.com/cuvee-vm/cuvee/controller/watch"
	"github.com/cuvee-vm/cuvee/render"
)

// digest stands for a text.
type digest [16]byte

func digestOf(text []byte) digest {
	sum := sha256.Sum256(text)
	return digest(sum[:16])
}

// inputDigest stands for all that a render sees.
func (p *pass) inputDigest(f found) (digest, error) {
	in := p.input(nil)
	own, err := in.Digest()
	if err != nil {
		return digest{}, err
	}
	text := fmt.Appendf(nil, "%x %s %d %s\n", own, p.pkg.Revision, in.Engine.Generation, in.Engine.Now)
	for _, key := range slices.Sorted(maps.Keys(f)) {
		for _, i := range f[key] {
			one, err := p.foundDigest(p.pkg.Set.Watches[key], i)
			if err != nil {
				return digest{}, err
			}
			text = fmt.Appendf(text, "%q %x\n", key, one)
		}
	}
	return digestOf(text), nil
}

// foundDigest stands for what the templates see of an object. Most need not be unpacked for it.
func (p *pass) foundDigest(l render.Lookup, i *watch.Item) (digest, error) {
	if kind := p.watches.Kind(gvk(l.APIVersion, l.Kind)); kind != nil && kind.Keeps(l) {
		return i.Sum(), nil
	}
	object := p.resource
	if i != p.item {
		var err error
		if object, err = i.Object(); err != nil {
			return digest{}, err
		}
	}
	data, err := json.Marshal(l.Project(object))
	if err != nil {
		return digest{}, fmt.Errorf("digest %s: %w", i.Ref(), err)
	}
	return digestOf(data), nil
}

// objectsDigest stands for the state of all objects that were made or changed for the custom resource.
func (p *pass) objectsDigest() digest {
	items := map[apiserver.Ref]*watch.Item{}
	p.eachMade(func(ref apiserver.Ref, i *watch.Item) { items[ref] = i })
	return p.madeDigest(items)
}

// eachMade goes through all objects that were made or changed for the custom resource.
func (p *pass) eachMade(do func(apiserver.Ref, *watch.Item)) {
	for _, kind := range p.watches.Kinds() {
		for _, i := range slices.Concat(kind.Owned(p.item.UID()), kind.Patched(p.item.UID())) {
			do(refOfItem(kind, i), i)
		}
	}
	for _, ref := range p.state.others {
		if kind := p.watches.Kind(ref.GroupVersionKind); kind != nil {
			if i := kind.Get(types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}); i != nil {
				do(ref, i)
			}
		}
	}
}

// judgedDigest is objectsDigest as it was when this pass looked at each object. What has changed since is for the next pass.
func (p *pass) judgedDigest() digest {
	return p.madeDigest(p.judged)
}

func (p *pass) madeDigest(items map[apiserver.Ref]*watch.Item) digest {
	var lines []string
	for ref, i := range items {
		var b strings.Builder
		b.WriteString(ref.String() + " ")
		i.WriteOwned(&b)
		lines = append(lines, b.String())
	}
	slices.Sort(lines)
	// The finalizer is ours, too.
	lines = append(lines, string(p.item.Fields()))
	return digestOf([]byte(strings.Join(lines, "")))
}

// judge remembers an object as it was found, or left, if it is one of the custom resource's.
func (p *pass) judge(ref apiserver.Ref, i *watch.Item) {
	if i != nil && (i.Owner() == p.item.UID() || i.PatchedFor() == p.item.UID() || slices.Contains(p.state.others, ref)) {
		p.judged[ref] = i
	}
}

func refOfItem(kind *watch.Kind, i *watch.Item) apiserver.Ref {
	return apiserver.Ref{GroupVersionKind: kind.GroupVersionKind, Namespace: i.Namespace(), Name: i.Name()}
}
