// Package crd makes CustomResourceDefinitions of the contracts in schema/. What CUE and OpenAPI both can say is taken
// from the CUE constraints, so that it is written once: types, enumerations, patterns, bounds, which fields must be
// there, and the documentation. For the rest CUE has attributes, which schema/quantity.cue explains.
package crd

import (
	"fmt"
	"slices"

	"cuelang.org/go/cue"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// header is the first line of every file, in the form that tools know generated files by.
const header = "# Code generated from schema/ by \"cuvee crd\". DO NOT EDIT.\n"

// Name is the name of the kind's CustomResourceDefinition.
func (k Kind) Name() string { return k.Plural + "." + k.Group }

// FileName is the name of the file that the CustomResourceDefinition is kept in.
func (k Kind) FileName() string { return k.Group + "_" + k.Plural + ".yaml" }

// CRD makes the kind's CustomResourceDefinition.
func (k Kind) CRD() (*apiextensions.CustomResourceDefinition, error) {
	var more struct {
		Singular string                                         `json:"singular"`
		Columns  []apiextensions.CustomResourceColumnDefinition `json:"columns"`
	}
	if err := k.more.Decode(&more); err != nil {
		return nil, fmt.Errorf("read #%sCRD: %w", k.Kind.Kind, err)
	}
	root, err := k.Schema()
	if err != nil {
		return nil, err
	}
	version := apiextensions.CustomResourceDefinitionVersion{
		Name:                     k.Version,
		Served:                   true,
		Storage:                  true,
		Schema:                   &apiextensions.CustomResourceValidation{OpenAPIV3Schema: root},
		AdditionalPrinterColumns: more.Columns,
	}
	if k.Status.Exists() {
		version.Subresources = &apiextensions.CustomResourceSubresources{Status: &apiextensions.CustomResourceSubresourceStatus{}}
	}
	scope := apiextensions.ClusterScoped
	if k.Namespaced {
		scope = apiextensions.NamespaceScoped
	}
	return &apiextensions.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiextensions.SchemeGroupVersion.String(), Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: k.Name()},
		Spec: apiextensions.CustomResourceDefinitionSpec{
			Group: k.Group,
			Names: apiextensions.CustomResourceDefinitionNames{
				Kind:     k.Kind.Kind,
				ListKind: k.Kind.Kind + "List",
				Plural:   k.Plural,
				Singular: more.Singular,
			},
			Scope:    scope,
			Versions: []apiextensions.CustomResourceDefinitionVersion{version},
		},
	}, nil
}

// Schema is the kind's contract as the API server reads it.
func (k Kind) Schema() (*apiextensions.JSONSchemaProps, error) {
	root, err := schemaOf(k.Definition)
	if err != nil {
		return nil, fmt.Errorf("schema of #%s%w", k.Kind.Kind, err)
	}
	// These are the API server's to define; of metadata it lets nothing be said.
	for _, name := range []string{"apiVersion", "kind"} {
		root.Properties[name] = apiextensions.JSONSchemaProps{Type: "string", Description: root.Properties[name].Description}
	}
	root.Properties["metadata"] = apiextensions.JSONSchemaProps{Type: "object"}
	root.Required = slices.DeleteFunc(root.Required, func(name string) bool { return name != "spec" })

	delete(root.Properties, "status")
	if !k.Status.Exists() {
		return root, nil
	}
	status, err := schemaOf(k.Status)
	if err != nil {
		return nil, fmt.Errorf("schema of #%sStatus%w", k.Kind.Kind, err)
	}
	status.Description = docOf(k.Definition.LookupPath(cue.MakePath(cue.Str("status").Optional())))
	root.Properties["status"] = *status
	return root, nil
}

// YAML is the kind's CustomResourceDefinition as a file.
func (k Kind) YAML() ([]byte, error) {
	c, err := k.CRD()
	if err != nil {
		return nil, err
	}
	// Without the status that the Go type always has, and that is the API server's.
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": c.APIVersion,
		"kind":       c.Kind,
		"metadata":   map[string]string{"name": c.Name},
		"spec":       c.Spec,
	})
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", c.Name, err)
	}
	return append([]byte(header), text...), nil
}
