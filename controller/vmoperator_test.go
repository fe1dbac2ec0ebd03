package controller_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// javaManager is the field manager of VM-Operator, which applies with force.
const javaManager = "kubernetes-java-kubectl-apply"

const formerLabels = `{app.kubernetes.io/name: vm-runner, app.kubernetes.io/instance: web, app.kubernetes.io/managed-by: vm-operator}`

// left is what VM-Operator leaves of a VM that is stopped. Its claims have the names that the release gave them.
func (c *cluster) left(data, disk string) {
	c.Helper()
	for _, manifest := range []string{
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: web, labels: %[1]s, annotations: {vmoperator.jdrupes.org/version: "4.0.3"}}, data: {config.yaml: "/Runner: {}", logging.properties: ""}}`,
		`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: %[2]s, labels: %[1]s}, spec: {accessModes: [ReadWriteOnce], storageClassName: former, resources: {requests: {storage: 1Mi}}}}`,
		`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: %[3]s, labels: %[1]s}, spec: {accessModes: [ReadWriteOnce], volumeMode: Block, storageClassName: former, resources: {requests: {storage: 1Gi}}}}`,
	} {
		u := &unstructured.Unstructured{}
		c.must(yaml.Unmarshal([]byte(strings.NewReplacer("%[1]s", formerLabels, "%[2]s", data, "%[3]s", disk).Replace(manifest)), &u.Object))
		u.SetNamespace(c.namespace)
		c.must(api.Apply(c.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(javaManager), client.ForceOwnership))
	}
	secret := c.object(`{apiVersion: v1, kind: Secret, metadata: {name: web-display-secret, labels: {app.kubernetes.io/name: vm-runner, app.kubernetes.io/instance: web, app.kubernetes.io/component: display-secret}}, stringData: {display-password: former, password-expiry: never}}`)
	c.must(api.Create(c.Context(), secret, client.FieldOwner("Kubernetes Java Client")))
}

// A VM of VM-Operator goes on with its disks, its firmware variables and its password, whichever release has named them.
func TestUpgradeFromVMOperator(t *testing.T) {
	for name, claims := range map[string][2]string{
		"StatefulSets": {"runner-data-web-0", "system-disk-web-0"},
		"Pods":         {"web-runner-data", "web-system-disk"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newNamespace(t)
			c.left(claims[0], claims[1])
			c.create(vmManifest, "web")
			c.start(one(vmPackage(t)))
			c.eventually(func() string {
				sts := c.get("apps/v1", "StatefulSet", "web")
				text := fmt.Sprint(at(sts, "spec", "template", "spec", "volumes"))
				if !strings.Contains(text, "claimName:"+claims[0]) || !strings.Contains(text, "claimName:"+claims[1]) {
					return "the pod does not use the claims: " + text
				}
				if at(c.get("v1", "ConfigMap", "web"), "data", "config.json") == nil {
					return "the ConfigMap has no config.json"
				}
				return ""
			})
			c.waitFor("web", "Ready", "False", "WaitingForPod")
			list := &unstructured.UnstructuredList{}
			list.SetAPIVersion("v1")
			list.SetKind("PersistentVolumeClaimList")
			c.must(api.List(t.Context(), list, client.InNamespace(c.namespace)))
			if len(list.Items) != 2 {
				t.Errorf("there are %d claims, want the two that were there", len(list.Items))
			}
			for _, claim := range list.Items {
				if at(&claim, "spec", "storageClassName") != "former" {
					t.Errorf("claim %s is %v", claim.GetName(), claim.Object["spec"])
				}
			}
			if got := at(c.get("v1", "Secret", "web-display-secret"), "data", "display-password"); got != base64.StdEncoding.EncodeToString([]byte("former")) {
				t.Errorf("the password is %v", got)
			}
		})
	}
}

// A StatefulSet that VM-Operator made before 3.4 is not taken from it. That is said, and it goes on when it was deleted.
func TestUpgradeWithStatefulSet(t *testing.T) {
	c := newNamespace(t)
	c.left("runner-data-web-0", "system-disk-web-0")
	old := c.object(`{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: web, labels: ` + formerLabels + `},
spec: {replicas: 0, serviceName: "", selector: {matchLabels: {app.kubernetes.io/name: vm-runner, app.kubernetes.io/instance: web}},
template: {metadata: {labels: ` + formerLabels + `}, spec: {containers: [{name: web, image: former}]}},
volumeClaimTemplates: [{metadata: {name: runner-data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}}]}}`)
	c.must(api.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(old), client.FieldOwner(javaManager), client.ForceOwnership))
	c.create(vmManifest, "web")
	c.start(one(vmPackage(t)))
	if message := c.waitFor("web", "Ready", "False", "Conflict"); !strings.Contains(message, "StatefulSet "+c.namespace+"/web") {
		t.Errorf("the message is %q", message)
	}
	c.must(api.Delete(t.Context(), old))
	// It is tried again every two minutes, or when something changes.
	c.patchVM(`{"spec":{"vm":{"maximumCpus":2}}}`)
	c.waitFor("web", "Ready", "False", "WaitingForPod")
}
