package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cuvee-vm/cuvee/controller/apiserver"
	"github.com/cuvee-vm/cuvee/render"
)

// kindsName is the ConfigMap that has, by package, the kinds that were ever made. What templates stop making is still found
// and removed by it, by whatever manager comes later.
const kindsName = "cuvee-kinds"

func (k *kindController) kindsRef() apiserver.Ref {
	return apiserver.Ref{GroupVersionKind: gvk("v1", "ConfigMap"), Namespace: k.options.OwnNamespace, Name: kindsName}
}

// loadKinds reads the kinds that were ever made.
func (k *kindController) loadKinds(ctx context.Context) error {
	k.everMade = map[schema.GroupVersionKind]bool{}
	data, _, err := k.api.GetData(ctx, k.kindsRef())
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read which kinds were made (%s): %w", k.kindsRef(), err)
	}
	for line := range strings.Lines(data[k.pkg.Load().Name]) {
		if apiVersion, kind, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			k.everMade[gvk(apiVersion, kind)] = true
		}
	}
	return nil
}

// rememberKinds adds the kinds that templates make. It is written down before the first of them is made.
func (k *kindController) rememberKinds(ctx context.Context, set *render.Set) error {
	all := maps.Clone(k.everMade)
	for _, m := range set.Makes {
		all[gvk(m.APIVersion, m.Kind)] = true
	}
	if len(all) == len(k.everMade) {
		return nil
	}
	var lines []string
	for made := range all {
		lines = append(lines, made.GroupVersion().String()+" "+made.Kind)
	}
	slices.Sort(lines)
	p := k.pkg.Load()
	body, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]string{"name": kindsName, "namespace": k.options.OwnNamespace},
		"data":     map[string]string{p.Name: strings.Join(lines, "\n") + "\n"},
	})
	if err != nil {
		return fmt.Errorf("write which kinds are made: %w", err)
	}
	if _, err := k.api.Apply(ctx, k.kindsRef(), body, apiserver.Apply{Manager: p.Owner, Force: true}); err != nil {
		return fmt.Errorf("write which kinds are made (%s): %w", k.kindsRef(), err)
	}
	k.everMade = all
	return nil
}
