package cuvee

// The definitions of the kinds for the API server, and the tables of their fields for people.
//
//go:generate go run ./cmd/cuvee crd -o kustomize/crd
//go:generate go run ./tools/fielddoc -o docs
