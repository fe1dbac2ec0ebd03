package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"cuelang.org/go/cue/cuecontext"
	"cuelang.org/go/encoding/yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/cuvee-vm/cuvee/controller/watch"
)

// resources are what the API server calls the kinds of a VM's objects.
var resources = map[string]schema.GroupVersionResource{
	"ConfigMap": {Version: "v1", Resource: "configmaps"}, "PersistentVolumeClaim": {Version: "v1", Resource: "persistentvolumeclaims"}, "Secret": {Version: "v1", Resource: "secrets"},
	"Service": {Version: "v1", Resource: "services"}, "StatefulSet": {Group: "apps", Version: "v1", Resource: "statefulsets"},
}

// claimFollows are fields of a claim's spec that are no part of its digest: templates render them as they are in the cluster.
var claimFollows = []string{"accessModes", "dataSource", "dataSourceRef", "selector", "storageClassName", "volumeMode", "volumeName"}

// cmdApplied compares manifests with what a manager has applied: each has the digest that the manager has written on the object.
func cmdApplied(ts *testscript.TestScript, neg bool, args []string) {
	noNegation(ts, neg)
	if len(args) != 2 {
		ts.Fatalf("usage: applied VM FILE")
	}
	objects, err := dynamic.NewForConfig(apiServer.Config)
	ts.Check(err)
	compared := 0
	for _, text := range bytes.Split([]byte(ts.ReadFile(args[1])), []byte("\n---\n")) {
		file, err := yaml.Extract(args[1], text)
		ts.Check(err)
		body, err := cuecontext.New(cuecontext.CUE_DEBUG("sortfields")).BuildFile(file).MarshalJSON()
		ts.Check(err)
		u := &unstructured.Unstructured{}
		ts.Check(json.Unmarshal(body, u))
		live, err := objects.Resource(resources[u.GetKind()]).Namespace(ts.Getenv("NS")).Get(context.Background(), u.GetName(), metav1.GetOptions{})
		ts.Check(err)
		annotations := live.GetAnnotations()
		// What is made once has random text, which nobody knows, and a certificate is no render.
		_, certificate, _ := unstructured.NestedString(live.Object, "data", "tls.crt")
		if annotations[watch.HashAnnotation] == "" || u.GetAnnotations()["cuvee-vm.github.io/placeholder"] != "" || certificate {
			continue
		}
		if u.GetKind() == "PersistentVolumeClaim" {
			for _, field := range claimFollows {
				rendered, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", field)
				is, _, _ := unstructured.NestedFieldNoCopy(live.Object, "spec", field)
				if diff := cmp.Diff(is, rendered); rendered != nil && diff != "" {
					ts.Fatalf("the claim %s has another %s (-applied +rendered):\n%s", u.GetName(), field, diff)
				}
				unstructured.RemoveNestedField(u.Object, "spec", field)
			}
			body, err = json.Marshal(u.Object)
			ts.Check(err)
		}
		digest := sha256.Sum256([]byte("cuvee.vm " + map[string]string{"true": "false", "": "true"}[annotations[watch.KeepAnnotation]] + " " + string(body)))
		if got, want := hex.EncodeToString(digest[:16]), annotations[watch.HashAnnotation]; got != want {
			ts.Fatalf("%s %s has the digest %s, and what was applied has %s:\n%s", u.GetKind(), u.GetName(), got, want, body)
		}
		compared++
	}
	if compared < 5 {
		ts.Fatalf("only %d objects could be compared", compared)
	}
}
