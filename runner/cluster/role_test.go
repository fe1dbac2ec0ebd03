package cluster

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// The Role in kustomize/runner gives what the table of docs/status.md says, and nothing else.
func TestRoleIsDocumented(t *testing.T) {
	var role struct {
		Rules []struct {
			APIGroups, Resources, Verbs []string
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, "../../kustomize/runner/role.yaml")), &role); err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, r := range role.Rules {
		for _, resource := range r.Resources {
			name, sub, isSub := strings.Cut(resource, "/")
			if r.APIGroups[0] != "" {
				name += "." + r.APIGroups[0]
			}
			if isSub {
				name += "/" + sub
			}
			got[name] = r.Verbs
		}
	}

	_, text, _ := strings.Cut(read(t, "../../docs/status.md"), "| object | verbs |\n|---|---|\n")
	table, _, _ := strings.Cut(text, "\n\n")
	want := map[string][]string{}
	word := regexp.MustCompile("`([^`]+)`")
	for row := range strings.Lines(table) {
		words := word.FindAllStringSubmatch(row, -1)
		for _, verb := range words[1:] {
			want[words[0][1]] = append(want[words[0][1]], verb[1])
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 {
		t.Errorf("rules (-docs +kustomize):\n%s", diff)
	}
}
