package crd_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/cuvee-vm/cuvee/render/crd"
)

// fault is what a judge finds wrong: where, and what.
type fault struct {
	path string
	what string
	// kind is the API server's class of the fault.
	kind field.ErrorType
}

// unknown is our own class, of fields that the API server refuses under strict validation and drops otherwise.
const unknown field.ErrorType = "FieldValueUnknown"

// server judges objects by a CustomResourceDefinition, with the code of the API server.
type server struct {
	props      *apiextensions.JSONSchemaProps
	structural *structuralschema.Structural
	schema     validation.SchemaValidator
	rules      *cel.Validator
}

func newServer(t *testing.T, k crd.Kind) *server {
	t.Helper()
	v, err := apiextensions.GetSchemaForVersion(internal(t, k), k.Version)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{props: v.OpenAPIV3Schema}
	if s.structural, err = structuralschema.NewStructural(s.props); err != nil {
		t.Fatal(err)
	}
	if s.schema, _, err = validation.NewSchemaValidator(s.props); err != nil {
		t.Fatal(err)
	}
	s.rules = cel.NewValidator(s.structural, true, celconfig.PerCallLimit)
	return s
}

// faults does what the API server does when an object is created with "fieldValidation=Strict".
func (s *server) faults(t *testing.T, object map[string]any) []fault {
	t.Helper()
	object = runtime.DeepCopyJSON(object)
	var faults []fault
	for _, path := range pruning.PruneWithOptions(object, s.structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}) {
		faults = append(faults, fault{path, "unknown field", unknown})
	}
	errs := validation.ValidateCustomResource(nil, object, s.schema)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, s.structural, object)...)
	if !slices.ContainsFunc(errs, blocks) {
		more, _ := s.rules.Validate(t.Context(), nil, s.structural, object, nil, celconfig.RuntimeCELCostBudget)
		errs = append(errs, more...)
	}
	for _, e := range errs {
		faults = append(faults, fault{strings.TrimPrefix(e.Field, "<nil>"), e.Detail, e.Type})
	}
	return faults
}

// blocks says of a fault that the rules are not looked at because of it.
func blocks(e *field.Error) bool {
	switch e.Type {
	case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
		return true
	}
	return false
}

func (f fault) String() string { return fmt.Sprintf("%s: %s (%s)", f.path, f.what, f.kind) }

// atOrAbove says that a path is that of the fault, or of an object that the fault is in.
func (f fault) atOrAbove(path string) bool {
	return f.path == path || f.path == "" || strings.HasPrefix(path, f.path+".") || strings.HasPrefix(path, f.path+"[")
}
