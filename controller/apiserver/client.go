// Package apiserver sends the requests of the engine to the API server. Bodies are JSON as it was rendered, and answers are
// metadata only where the engine needs no more.
package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// metadataOnly asks for the metadata of what a request returns, or for a Status.
const metadataOnly = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"

// Ref names an object.
type Ref struct {
	schema.GroupVersionKind
	// Namespace is empty for objects of the cluster.
	Namespace, Name string
}

// String is the kind and the name, as messages have it.
func (r Ref) String() string {
	if r.Namespace == "" {
		return r.Kind + " " + r.Name
	}
	return r.Kind + " " + r.Namespace + "/" + r.Name
}

// Client sends requests to one API server. It may be used by several goroutines at a time.
type Client struct {
	rest   *rest.RESTClient
	mapper *Mapper
}

// New makes a client. It does not limit its own requests, as the server does that better (API Priority and Fairness).
func New(config *rest.Config, httpClient *http.Client, mapper *Mapper) (*Client, error) {
	c := rest.CopyConfig(config)
	c.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	c.ContentType = "application/json"
	c.APIPath = "/"
	c.GroupVersion = &schema.GroupVersion{}
	c.RateLimiter = flowcontrol.NewFakeAlwaysRateLimiter()
	r, err := rest.UnversionedRESTClientForConfigAndClient(c, httpClient)
	if err != nil {
		return nil, fmt.Errorf("make a client of the API server: %w", err)
	}
	return &Client{rest: r, mapper: mapper}, nil
}

// Mapping is how the API server calls a kind. The error is a no-match (meta.IsNoMatchError) for a kind that it does not have.
func (c *Client) Mapping(gvk schema.GroupVersionKind) (*meta.RESTMapping, error) {
	return c.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
}

// Apply is server-side apply.
type Apply struct {
	// Manager is the field manager.
	Manager string
	// Force takes fields from other managers.
	Force bool
	// Subresource is what to apply to; empty for the object itself.
	Subresource string
	// Whole asks for the whole object in return, as unstructured; otherwise it is PartialObjectMetadata.
	Whole bool
}

// Apply applies an object and returns it, or its metadata.
func (c *Client) Apply(ctx context.Context, ref Ref, body []byte, a Apply) (client.Object, error) {
	req, err := c.request("PATCH", ref, ref.Name, a.Subresource)
	if err != nil {
		return nil, err
	}
	req.Param("fieldManager", a.Manager).SetHeader("Content-Type", string(types.ApplyYAMLPatchType))
	if a.Force {
		req.Param("force", "true")
	}
	return object(ctx, req.Body(body), a.Whole)
}

// Create makes an object that must not exist.
func (c *Client) Create(ctx context.Context, ref Ref, body []byte, manager string, whole bool) (client.Object, error) {
	req, err := c.request("POST", ref, "", "")
	if err != nil {
		return nil, err
	}
	return object(ctx, req.Param("fieldManager", manager).SetHeader("Content-Type", "application/json").Body(body), whole)
}

// Replace puts an object in the place of the one with the resourceVersion that it names.
func (c *Client) Replace(ctx context.Context, ref Ref, body []byte, manager string) (*metav1.PartialObjectMetadata, error) {
	req, err := c.request("PUT", ref, ref.Name, "")
	if err != nil {
		return nil, err
	}
	return metadata(ctx, req.Param("fieldManager", manager).SetHeader("Content-Type", "application/json").Body(body))
}

// Patch sends a JSON patch.
func (c *Client) Patch(ctx context.Context, ref Ref, body []byte, manager string) (*metav1.PartialObjectMetadata, error) {
	req, err := c.request("PATCH", ref, ref.Name, "")
	if err != nil {
		return nil, err
	}
	return metadata(ctx, req.Param("fieldManager", manager).SetHeader("Content-Type", string(types.JSONPatchType)).Body(body))
}

// Get returns the metadata of an object.
func (c *Client) Get(ctx context.Context, ref Ref) (*metav1.PartialObjectMetadata, error) {
	req, err := c.request("GET", ref, ref.Name, "")
	if err != nil {
		return nil, err
	}
	return metadata(ctx, req)
}

// GetWhole returns an object.
func (c *Client) GetWhole(ctx context.Context, ref Ref) (*unstructured.Unstructured, error) {
	req, err := c.request("GET", ref, ref.Name, "")
	if err != nil {
		return nil, err
	}
	return wholeObject(ctx, req)
}

// GetData returns the data of a Secret or a ConfigMap, as it is written in JSON: base64 in a Secret.
func (c *Client) GetData(ctx context.Context, ref Ref) (map[string]string, *metav1.ObjectMeta, error) {
	req, err := c.request("GET", ref, ref.Name, "")
	if err != nil {
		return nil, nil, err
	}
	raw, err := send(ctx, req.SetHeader("Accept", "application/json"))
	if err != nil {
		return nil, nil, err
	}
	var object struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
		Data     map[string]string `json:"data"`
	}
	if err := json.Unmarshal(raw, &object); err != nil {
		return nil, nil, fmt.Errorf("read response of the API server: %w", err)
	}
	return object.Data, &object.Metadata, nil
}

// Delete removes the object with the UID, in the background.
func (c *Client) Delete(ctx context.Context, ref Ref, uid types.UID) error {
	req, err := c.request("DELETE", ref, ref.Name, "")
	if err != nil {
		return err
	}
	background := metav1.DeletePropagationBackground
	body, err := json.Marshal(&metav1.DeleteOptions{
		TypeMeta:          metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		Preconditions:     &metav1.Preconditions{UID: &uid},
		PropagationPolicy: &background,
	})
	if err != nil {
		return fmt.Errorf("write request: %w", err)
	}
	return req.SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Error()
}

func (c *Client) request(verb string, ref Ref, name, subresource string) (*rest.Request, error) {
	mapping, err := c.Mapping(ref.GroupVersionKind)
	if err != nil {
		return nil, err
	}
	req := c.rest.Verb(verb).SetHeader("Accept", metadataOnly)
	path := []string{"/apis", mapping.Resource.Group, mapping.Resource.Version}
	if mapping.Resource.Group == "" {
		path = []string{"/api", mapping.Resource.Version}
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		if ref.Namespace == "" {
			return nil, fmt.Errorf("%s %s has no namespace", ref.Kind, ref.Name)
		}
		path = append(path, "namespaces", ref.Namespace)
	}
	path = append(path, mapping.Resource.Resource)
	for _, part := range []string{name, subresource} {
		if part != "" {
			path = append(path, part)
		}
	}
	// Names are rendered: one with a slash would be another path.
	for _, part := range []string{ref.Namespace, name} {
		if messages := rest.IsValidPathSegmentName(part); part != "" && len(messages) > 0 {
			return nil, fmt.Errorf("%q is no name of an object: %s", part, messages[0])
		}
	}
	return req.AbsPath(path...), nil
}

// send returns the body of the response. Error has what the server said, Raw has not. The client's own log is not wanted at any
// level, as it has the bodies, and those have secrets.
func send(ctx context.Context, req *rest.Request) ([]byte, error) {
	result := req.Do(klog.NewContext(ctx, logr.Discard()))
	if err := result.Error(); err != nil {
		return nil, err
	}
	return result.Raw()
}

func object(ctx context.Context, req *rest.Request, whole bool) (client.Object, error) {
	if !whole {
		return metadata(ctx, req)
	}
	return wholeObject(ctx, req)
}

func wholeObject(ctx context.Context, req *rest.Request) (*unstructured.Unstructured, error) {
	raw, err := send(ctx, req.SetHeader("Accept", "application/json"))
	if err != nil {
		return nil, err
	}
	out := &unstructured.Unstructured{}
	if err := out.UnmarshalJSON(raw); err != nil {
		return nil, fmt.Errorf("read response of the API server: %w", err)
	}
	return out, nil
}

func metadata(ctx context.Context, req *rest.Request) (*metav1.PartialObjectMetadata, error) {
	raw, err := send(ctx, req)
	if err != nil {
		return nil, err
	}
	out := &metav1.PartialObjectMetadata{}
	if err := json.Unmarshal(raw, out); err != nil {
		return nil, fmt.Errorf("read response of the API server: %w", err)
	}
	return out, nil
}
