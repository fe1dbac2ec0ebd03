package crd_test

import (
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"sigs.k8s.io/yaml"

	"github.com/cuvee-vm/cuvee"
	"github.com/cuvee-vm/cuvee/render/crd"
)

// TestAccepted runs what the API server runs when a CustomResourceDefinition is created: among others, that the schema is
// structural, that every rule compiles, and that none is estimated to take too long.
func TestAccepted(t *testing.T) {
	for _, k := range loadKinds(t) {
		t.Run(k.Name(), func(t *testing.T) {
			c := internal(t, k)
			// A server that got the definition has put these here before it validates.
			c.Status.StoredVersions = []string{k.Version}
			for _, err := range validation.ValidateCustomResourceDefinition(t.Context(), c) {
				t.Error(err)
			}
		})
	}
}

func loadKinds(t *testing.T) []crd.Kind {
	t.Helper()
	kinds, err := crd.Load(cuvee.Files)
	if err != nil {
		t.Fatal(err)
	}
	if len(kinds) == 0 {
		t.Fatal("there are no kinds")
	}
	return kinds
}

// internal reads the kind's CustomResourceDefinition the way the API server does: from the file, strictly.
func internal(t *testing.T, k crd.Kind) *apiextensions.CustomResourceDefinition {
	t.Helper()
	text, err := k.YAML()
	if err != nil {
		t.Fatal(err)
	}
	external := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(text, external); err != nil {
		t.Fatal(err)
	}
	apiextensionsv1.SetDefaults_CustomResourceDefinition(external)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&external.Spec)
	c := &apiextensions.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(external, c, nil); err != nil {
		t.Fatal(err)
	}
	return c
}
