package main

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/google/go-cmp/cmp"
)

// A cluster without the CustomResourceDefinition is told from one without the VM.
func TestNoKind(t *testing.T) {
	server := needAPIServer(t)
	objects, err := dynamic.NewForConfig(server.Config)
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{config: server.Config, namespace: "default", objects: objects}
	unknown := vmResource
	unknown.Resource = "nothings"
	_, err = c.in(unknown).List(t.Context(), metav1.ListOptions{})
	if err = c.failed(err); !errors.Is(err, errNotFound) || !strings.Contains(err.Error(), "its CustomResourceDefinition is not installed") {
		t.Errorf("a list of an unknown kind: %v", err)
	}
	_, err = c.in(unknown).Get(t.Context(), "web", metav1.GetOptions{})
	if !noKind(err) {
		t.Errorf("an object of an unknown kind: %v", err)
	}
	_, err = c.vms().Get(t.Context(), "web", metav1.GetOptions{})
	if err == nil || noKind(err) {
		t.Errorf("no object of a known kind: %v", err)
	}
}

func TestThereAre(t *testing.T) {
	many := strings.Fields("a1 a2 a3 a4 a5 a6 a7 a8 a9 b1 b2 web")
	cases := map[string]struct {
		reason string
		wrong  string
		names  []string
		want   string
	}{
		"One":     {"There is nothing to choose from.", "wbe", []string{"web"}, "there are: web"},
		"Near":    {"Two letters have changed places.", "wbe", []string{"idle", "web"}, "did you mean web? there are: idle, web"},
		"Far":     {"Nothing is like it.", "something", []string{"idle", "web"}, "there are: idle, web"},
		"TooMany": {"A list of thousands helps nobody.", "wbe", many, "did you mean web? there are: a1, a2, a3, a4, a5, a6, a7, a8, a9, b1 and 2 more"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, thereAre(tc.wrong, tc.names)); diff != "" {
				t.Errorf("%s\n(-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}
