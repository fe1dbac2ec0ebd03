// Package render turns a custom resource into manifests with a template package written in CUE.
//
// [Load] compiles a template package, as it is embedded in the program or with the files of a site laid over it.
// [Set.Render] checks a custom resource against its contract, fills it in, and returns what the templates
// make of it. [Decode] reads documents with the place of each field, so that a [Fault] can say where it is.
// The package knows neither a Kubernetes client nor QEMU; nothing in it knows what a VM is.
package render
