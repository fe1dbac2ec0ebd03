package watch

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

func TestAddressFor(t *testing.T) {
	secrets := newKind(schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, true, project{}, nil)
	nodes := newKind(schema.GroupVersionKind{Version: "v1", Kind: "Node"}, false, project{}, nil)
	app := func(name string) map[string]string {
		return map[string]string{"app.kubernetes.io/instance": name, "app.kubernetes.io/name": "vm-runner"}
	}
	cases := map[string]struct {
		reason   string
		at, want Address
	}{
		"Name":          {"a name that is made of the resource's", secrets.ByName("a", "web-0"), secrets.ByName("b", "mail-0")},
		"OtherName":     {"a name that is the same for all", secrets.ByName("a", "images"), secrets.ByName("b", "images")},
		"Labels":        {"values follow the name, and keys do not", secrets.ByLabels("a", app("web")), secrets.ByLabels("b", app("mail"))},
		"WholeCluster":  {"there is no namespace to change", nodes.ByName("", "web"), nodes.ByName("", "mail")},
		"ElsewhereName": {"another namespace stays", secrets.ByName("c", "web"), secrets.ByName("c", "mail")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			web, mail := types.NamespacedName{Namespace: "a", Name: "web"}, types.NamespacedName{Namespace: "b", Name: "mail"}
			marked := tc.at.Mark(web)
			if same := marked.For(web); same != tc.at {
				t.Errorf("%q becomes %q when it is marked, and %q again", tc.at, marked, same)
			}
			got := marked.For(mail)
			if got != tc.want {
				t.Errorf("%s: %q becomes %q, want %q", tc.reason, tc.at, got, tc.want)
			}
		})
	}
	// A name that is in a label's key must not make another key of it.
	at := secrets.ByLabels("a", app("app"))
	got := at.Mark(types.NamespacedName{Namespace: "a", Name: "app"}).For(types.NamespacedName{Namespace: "a", Name: "x"})
	if want := secrets.ByLabels("a", app("x")); got != want {
		t.Errorf("%q becomes %q, want %q", at, got, want)
	}
}
