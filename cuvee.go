// Package cuvee holds the CUE that Cuvee ships: the contracts of its kinds (schema) and the templates that
// turn a custom resource into manifests (templates). Package render works with them.
package cuvee

import "embed"

// Files is the CUE module, as it is in this repository.
//
//go:embed cue.mod/module.cue all:schema all:templates
var Files embed.FS
