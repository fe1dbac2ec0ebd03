package change

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cuvee-vm/cuvee/controller/managedfields"
)

// equal says that two values are the same to the API server: what is empty may be left out, and a quantity is the same however it is
// written.
func equal(path string, a, b any) bool {
	if managedfields.Empty(a) && managedfields.Empty(b) {
		return true
	}
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		return ok && !slices.ContainsFunc(keysOf(x, y), func(k string) bool {
			at := fieldPath(path, k)
			return !equal(at, x[k], y[k]) && (y[k] != nil || !isDefault(at, x[k]))
		})
	case []any:
		y, ok := b.([]any)
		return ok && slices.EqualFunc(x, y, func(v, w any) bool { return equal(path, v, w) })
	}
	was, errA := json.Marshal(a)
	is, errB := json.Marshal(b)
	if errA == nil && errB == nil && bytes.Equal(was, is) {
		return true
	}
	return quantities.MatchString(path) && sameQuantity(a, b)
}

// quantities are the fields that are such.
var quantities = regexp.MustCompile(`\.(requests|limits|capacity)[.[][^.[]*$|\.sizeLimit$`)

// sameQuantity says that both are quantities, of the same size: 1000m and 1, 1024Mi and 1Gi.
func sameQuantity(a, b any) bool {
	p, err := resource.ParseQuantity(fmt.Sprint(a))
	if err != nil {
		return false
	}
	q, err := resource.ParseQuantity(fmt.Sprint(b))
	return err == nil && p.Cmp(q) == 0
}

// defaults are what the API server fills into values that are owned as a whole: nothing tells there who has set them.
var defaults = map[string]string{
	"fieldRef.apiVersion": "v1", "resourceFieldRef.divisor": "0", "serviceAccountToken.expirationSeconds": "3600",
	"secret.defaultMode": "420", "configMap.defaultMode": "420", "projected.defaultMode": "420", "downwardAPI.defaultMode": "420",
}

// isDefault says that a value that is there is one that the API server fills in.
func isDefault(path string, v any) bool {
	words := strings.Split(path, ".")
	if len(words) < 2 {
		return false
	}
	want, ok := defaults[strings.Join(words[len(words)-2:], ".")]
	return ok && fmt.Sprint(v) == want
}
