package templateset_test

import "testing/fstest"

// builtIn is a module with one small kind: the templates of VMs take a second to compile.
func builtIn() fstest.MapFS {
	return module(map[string]string{
		"cue.mod/module.cue":           "module: \"github.com/cuvee-vm/cuvee@v0\"\nlanguage: version: \"v0.17.0\"\n",
		"schema/gadget.cue":            schemaOf("Gadget"),
		"templates/gadget/package.cue": packageOf("gadget", "Gadget", "github.com/cuvee-vm/cuvee/schema"),
		"templates/gadget/cases/plain.yaml": `apiVersion: example.com/v1
kind: Gadget
metadata: {name: plain}
spec: {size: 1}
`,
	})
}

func module(files map[string]string) fstest.MapFS {
	out := fstest.MapFS{}
	for name, text := range files {
		out[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return out
}

func schemaOf(kind string) string {
	return `package schema

#` + kind + `: {
	apiVersion: "example.com/v1"
	kind:       "` + kind + `"
	metadata: {...}
	spec: size?: int
}
`
}

// packageOf is a template package that makes a ConfigMap.
func packageOf(name, kind, schema string) string {
	return `package ` + name + `

import "` + schema + `"

kind: {group: "example.com", version: "v1", kind: "` + kind + `", plural: "` + name + `s", namespaced: true}

_contract: schema.#` + kind + `

makes: configMap: {apiVersion: "v1", kind: "ConfigMap"}

settings: {
	color: string | *"green"
	limit: int | *100
}

input: {metadata: {name: string, ...}, spec: {size: int | *1}, ...}

observe: {}
observed: {}
engine: {resourceVersion: string | *"", now: string | *"", random: string | *""}

objects: [string]: {apiVersion!: string, kind!: string, metadata!: {name!: string, ...}, ...}
objects: configMap: {
	apiVersion: "v1"
	kind:       "ConfigMap"
	metadata: name: input.metadata.name
	data: {color: settings.color, size: "\(input.spec.size)"}
}
policy: {for k, _ in objects {(k): {mode: string | *"apply", prune: bool | *true, wave: int | *0}}}

faults: [string]: {path!: string, message!: string}
if input.spec.size > settings.limit {faults: size: {path: "spec.size", message: "is too large"}}

status: {}
conditions: [string]: {...}
metrics: [string]: number
done: bool | *true
`
}
