package render

// metadataKept is the part of a custom resource's metadata that templates see. The rest changes without a change of the
// user's making, and its field names would pile up in CUE's tables.
var metadataKept = []string{"name", "namespace", "uid", "labels", "annotations", "ownerReferences", "deletionTimestamp"}

// lastApplied is kubectl's copy of the object.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// Clean returns the part of a custom resource that templates see.
func Clean(object map[string]any) map[string]any { return clean(object) }

// clean returns the part of a custom resource that templates see. What is not of the expected shape is left as it is, so
// that it is reported.
func clean(object map[string]any) map[string]any {
	out := make(map[string]any, len(object))
	for k, v := range object {
		if k != "status" {
			out[k] = v
		}
	}
	metadata, ok := object["metadata"].(map[string]any)
	if !ok {
		return out
	}
	kept := make(map[string]any, len(metadataKept))
	for _, k := range metadataKept {
		if v, ok := metadata[k]; ok {
			kept[k] = v
		}
	}
	if annotations, ok := kept["annotations"].(map[string]any); ok {
		others := make(map[string]any, len(annotations))
		for k, v := range annotations {
			if k != lastApplied {
				others[k] = v
			}
		}
		kept["annotations"] = others
	}
	out["metadata"] = kept
	return out
}
