package cluster

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// The kind of a VM.
const (
	apiVersion = "vmoperator.jdrupes.org/v1"
	kind       = "VirtualMachine"
)

// stateStopped is the spec.vm.state of a VM that shall not run.
const stateStopped = "Stopped"

// VM is a VirtualMachine in the cluster.
type VM struct {
	Namespace, Name string
}

func (v VM) path() string {
	return "/apis/" + apiVersion + "/namespaces/" + url.PathEscape(v.Namespace) + "/vms/" + url.PathEscape(v.Name)
}

// virtualMachine is what of a VirtualMachine is read.
type virtualMachine struct {
	Metadata struct {
		UID             string `json:"uid"`
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Spec struct {
		VM struct {
			State string `json:"state"`
		} `json:"vm"`
	} `json:"spec"`
	Status struct {
		Conditions []condition `json:"conditions"`
	} `json:"status"`
}

func (c *Client) virtualMachine(ctx context.Context, v VM) (*virtualMachine, error) {
	var m virtualMachine
	if err := c.do(ctx, request{method: http.MethodGet, path: v.path()}, &m); err != nil {
		return nil, fmt.Errorf("get VirtualMachine: %w", err)
	}
	return &m, nil
}

// applyStatus applies the runner's part of the status. It is no one else's, so it is taken by force, also back from a manager
// that has cleared it while there was no runner.
//
// It fails with a conflict if the VirtualMachine is not of that resourceVersion any more. That is how one of the same name that was made
// later is left alone: in an apply of a status the API server does not compare the UID.
func (c *Client) applyStatus(ctx context.Context, v VM, resourceVersion string, s status) error {
	body := map[string]any{
		"apiVersion": apiVersion,
		"kind":       kind,
		"metadata":   map[string]string{"name": v.Name, "namespace": v.Namespace, "resourceVersion": resourceVersion},
		"status":     s,
	}
	err := c.do(ctx, request{
		method:      http.MethodPatch,
		path:        v.path() + "/status",
		contentType: contentApply,
		query:       url.Values{"fieldManager": {FieldManager}, "force": {"true"}},
		body:        body,
	}, nil)
	if err != nil {
		return fmt.Errorf("apply status: %w", err)
	}
	return nil
}

// stop asks for the VM to be stopped: the one field of a spec that a runner writes. It wants to have seen what it
// changes, so it fails with a conflict if the VirtualMachine is changed meanwhile.
func (c *Client) stop(ctx context.Context, v VM) error {
	m, err := c.virtualMachine(ctx, v)
	if err != nil {
		return err
	}
	if m.Spec.VM.State == stateStopped {
		return nil
	}
	err = c.do(ctx, request{
		method:      http.MethodPatch,
		path:        v.path(),
		contentType: contentMerge,
		query:       url.Values{"fieldManager": {FieldManager}},
		body: map[string]any{
			"metadata": map[string]string{"uid": m.Metadata.UID, "resourceVersion": m.Metadata.ResourceVersion},
			"spec":     map[string]any{"vm": map[string]string{"state": stateStopped}},
		},
	}, nil)
	if err != nil {
		return fmt.Errorf("set spec.vm.state: %w", err)
	}
	return nil
}

// Pod is the pod that the runner is in.
type Pod struct {
	Namespace, Name, UID string
}

// delete deletes the pod, unless it is another of the same name.
func (c *Client) delete(ctx context.Context, p Pod) error {
	err := c.do(ctx, request{
		method:      http.MethodDelete,
		path:        "/api/v1/namespaces/" + url.PathEscape(p.Namespace) + "/pods/" + url.PathEscape(p.Name),
		contentType: contentJSON,
		body: map[string]any{
			"apiVersion": "v1", "kind": "DeleteOptions",
			"preconditions": map[string]string{"uid": p.UID},
		},
	}, nil)
	if err == nil || hasCode(err, http.StatusNotFound) || hasCode(err, http.StatusConflict) {
		// What is gone, or another one, need not be deleted.
		return nil
	}
	return fmt.Errorf("delete pod: %w", err)
}

// apiTime is a time as Kubernetes writes it: in UTC, to the second.
func apiTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// apiMicroTime is metav1.MicroTime.
func apiMicroTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z") }
