package managedfields

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Entry returns the FieldsV1 that a manager has applied to an object, or to one of its subresources; nil if there are none.
func Entry(all []metav1.ManagedFieldsEntry, manager, subresource string) []byte {
	for _, e := range all {
		if e.Manager == manager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == subresource && e.FieldsV1 != nil {
			return e.FieldsV1.GetRawBytes()
		}
	}
	return nil
}

// UpdatedBy says whether a manager has changed an object by other means than server-side apply.
func UpdatedBy(all []metav1.ManagedFieldsEntry, manager string) bool {
	for _, e := range all {
		if e.Manager == manager && e.Operation == metav1.ManagedFieldsOperationUpdate && e.Subresource == "" {
			return true
		}
	}
	return false
}

// Owned returns the part of an object that an entry owns. It is for parts of which each field has one owner, as a
// status: lists with keys are taken item by item, anything else that is owned at all is taken as it is.
func Owned(entry []byte, object map[string]any) (map[string]any, error) {
	if len(entry) == 0 {
		return map[string]any{}, nil
	}
	var fields map[string]any
	if err := json.Unmarshal(entry, &fields); err != nil {
		return nil, fmt.Errorf("read fields of a manager: %w", err)
	}
	return ownedMap(fields, object), nil
}

func ownedMap(fields, object map[string]any) map[string]any {
	out := map[string]any{}
	for name, value := range object {
		child, ok := fields["f:"+name].(map[string]any)
		if !ok {
			continue
		}
		switch v := value.(type) {
		case map[string]any:
			if hasPrefix(child, "f:") {
				out[name] = ownedMap(child, v)
				continue
			}
			out[name] = v
		case []any:
			out[name] = ownedList(child, v)
		default:
			out[name] = v
		}
	}
	return out
}

func ownedList(fields map[string]any, list []any) []any {
	if !hasPrefix(fields, "k:") {
		return list
	}
	var out []any
	for _, item := range list {
		object, ok := item.(map[string]any)
		if !ok {
			continue
		}
		for key := range fields {
			var keys map[string]any
			if len(key) > 2 && json.Unmarshal([]byte(key[2:]), &keys) == nil && hasKeys(object, keys) {
				out = append(out, item)
				break
			}
		}
	}
	return out
}
