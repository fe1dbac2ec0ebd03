package managerconfig

import (
	"maps"
	"slices"
	"strings"
)

// key is what may be at a place of the file. A nil take and no keys below say that it is accepted, and has no effect.
type key struct {
	// effect says what it does, or why it does nothing.
	effect string
	// below are the keys of a mapping.
	below map[string]key
	// take takes a value over.
	take func(r *reader, v value)
}

// root are the keys of the whole file. A component's properties are those that VM-Operator has, up to its version 4.0.
var root = key{below: map[string]key{"/Manager": {below: map[string]key{
	"clusterName":      {effect: "none: it is shown in the web GUI"},
	"/GuiSocketServer": {effect: "none: there is no web GUI"},
	"/GuiHttpServer":   {effect: "none: there is no web GUI"},
	"/Controller": {below: map[string]key{
		"namespace":             {effect: "the manager's own namespace, if neither `--namespace` nor `NAMESPACE` says it", take: takeNamespace},
		"/DisplaySecretMonitor": {effect: "none: it is the old place of `/DisplaySecretReconciler`"},
		"/Reconciler": {below: map[string]key{
			"runnerDataPvc": {below: map[string]key{
				"storageClassName": setting("runnerDataPvc.storageClassName", takeText),
			}},
			"cpuOvercommit": setting("cpuOvercommit", takeNumber),
			"ramOvercommit": setting("ramOvercommit", takeNumber),
			"loadBalancerService": {
				effect: "`settings.loadBalancerService`: true or false is its `enabled`; `labels` and `annotations` are those of the Services, and mean true",
				take:   takeLoadBalancer,
			},
			"loggingProperties":        {effect: "none: a runner's log has a level of its own"},
			"/DisplaySecretReconciler": {effect: "none: a generated password does not expire"},
		}},
	}},
}}}}

func setting(path string, take func(r *reader, path string, v value)) key {
	return key{effect: "`settings." + path + "`", take: func(r *reader, v value) { take(r, path, v) }}
}

// Key is a key of the file, for documents.
type Key struct{ Path, Effect string }

// Keys are all keys that the file may have, sorted.
func Keys() []Key { return root.list("") }

func (k key) list(path string) []Key {
	var out []Key
	if k.effect != "" {
		out = append(out, Key{strings.TrimPrefix(path, "."), k.effect})
	}
	for _, name := range slices.Sorted(maps.Keys(k.below)) {
		out = append(out, k.below[name].list(join(path, name))...)
	}
	return out
}

// join is the path of a key below another one.
func join(path, name string) string {
	if path == "" || strings.HasPrefix(name, "/") {
		return path + name
	}
	return path + "." + name
}
