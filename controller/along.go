package controller

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// keepAlong makes fields that are only written along with others what they are already, so that they are no difference.
func (p *pass) keepAlong(own, desired map[string]any) {
	if p.result == nil {
		return
	}
	for field := range p.result.Along {
		delete(desired, field)
		if v, ok := own[field]; ok {
			desired[field] = v
		}
	}
}

// setAlong sets those fields in a status that is written: the time of that, and the resourceVersion of an object as this pass has
// left it.
func (p *pass) setAlong(desired map[string]any) {
	if p.result == nil {
		return
	}
	for field, a := range p.result.Along {
		switch v := p.resourceVersionOf(a.ResourceVersionOf); {
		case a.Time:
			desired[field] = time.Now().UTC().Format(time.RFC3339)
		case v != "":
			desired[field] = v
		}
	}
}

// resourceVersionOf is that of an object that this pass has applied; "" if it has not.
func (p *pass) resourceVersionOf(key string) string {
	ref, ok := p.refs[key]
	if !ok {
		return ""
	}
	kind := p.watches.Kind(ref.GroupVersionKind)
	if kind == nil {
		return ""
	}
	if i := kind.Get(types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}); i != nil {
		return i.ResourceVersion()
	}
	return ""
}
