package kustomize_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	psaapi "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

func deployment(t *testing.T, dir string) *appsv1.Deployment {
	t.Helper()
	return decode(t, find(t, build(t, dir), "Deployment", "vm-operator")).(*appsv1.Deployment)
}

// The manager's pod passes the strictest of the Pod Security Standards.
func TestRestricted(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	pod := deployment(t, "base").Spec.Template
	restricted := psaapi.LevelVersion{Level: psaapi.LevelRestricted, Version: psaapi.LatestVersion()}
	for _, r := range evaluator.EvaluatePod(restricted, &pod.ObjectMeta, &pod.Spec) {
		if !r.Allowed {
			t.Errorf("%s: %s", r.ForbiddenReason, r.ForbiddenDetail)
		}
	}
	// The standards do not ask for this.
	if c := pod.Spec.Containers[0].SecurityContext; c.ReadOnlyRootFilesystem == nil || !*c.ReadOnlyRootFilesystem {
		t.Error("the manager can write to its root file system")
	}
}

// The dev overlay is for a manager outside of the cluster.
func TestDevHasNoManager(t *testing.T) {
	d := deployment(t, "overlays/dev")
	if d.Namespace != "vmop-dev" || d.Spec.Replicas == nil || *d.Spec.Replicas != 0 {
		t.Errorf("%s has %v replicas, want vmop-dev and 0", d.Namespace, d.Spec.Replicas)
	}
}
