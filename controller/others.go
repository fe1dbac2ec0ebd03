package controller

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/cuvee-vm/cuvee/controller/apiserver"
	"github.com/cuvee-vm/cuvee/controller/watch"
)

// findOthers makes the custom resource known to objects that no label leads back from: those to patch, which may come later,
// and the Secrets of certificates, which a user may have made.
func (p *pass) findOthers() error {
	var now []apiserver.Ref
	left := maps.Clone(p.result.Generate)
	for _, o := range p.result.Objects {
		_, certified := left[o.Key]
		if !certified && !isPatch(o) {
			continue
		}
		ref, err := p.refOf(o)
		if err != nil {
			return err
		}
		if certified && ref.GroupVersionKind != gvk("v1", "Secret") {
			return &problem{reason: reasonTemplateError, stalled: true, wait: true,
				message: fmt.Sprintf("generate.%s: objects.%s is a %s, want a Secret", o.Key, o.Key, ref.Kind)}
		}
		delete(left, o.Key)
		if !slices.Contains(now, ref) {
			now = append(now, ref)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(left)) {
		return &problem{reason: reasonTemplateError, stalled: true, wait: true,
			message: fmt.Sprintf("generate.%s: there is no objects.%s to have the certificate", key, key)}
	}
	if !p.looking && !slices.Equal(now, p.state.others) {
		p.wantOthers(p.state.who, p.state.others, now)
		p.state.others = now
		// What is observed may be the same objects.
		p.want(p.state.who, pattern{}, p.state.at)
	}
	p.state.certificates.delete(func(key string) bool {
		_, asked := p.result.Generate[key]
		return !asked
	})
	return nil
}

// waitFor makes a custom resource known to an object that is in its way, until the next render.
func (p *pass) waitFor(ref apiserver.Ref) {
	if p.looking || slices.Contains(p.state.others, ref) {
		return
	}
	p.state.others = append(slices.Clone(p.state.others), ref)
	p.wantOthers(p.state.who, nil, p.state.others)
}

// wantOthers makes a custom resource known to objects, and unknown to the last ones.
func (k *kindController) wantOthers(who *types.NamespacedName, last, now []apiserver.Ref) {
	each := func(refs []apiserver.Ref, do func(*watch.Kind, watch.Address)) {
		for _, ref := range refs {
			if kind := k.watches.Kind(ref.GroupVersionKind); kind != nil {
				do(kind, kind.ByName(ref.Namespace, ref.Name))
			}
		}
	}
	gone := slices.DeleteFunc(slices.Clone(last), func(ref apiserver.Ref) bool { return slices.Contains(now, ref) })
	each(gone, func(kind *watch.Kind, at watch.Address) { kind.Unwant(at, *who) })
	each(now, func(kind *watch.Kind, at watch.Address) { kind.Want(at, who) })
}
