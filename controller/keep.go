package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// KeptTemplates is the ConfigMap with the last good files of a site.
const KeptTemplates = "cuvee-templates"

// keptKey is where they are in it.
const keptKey = "files.json"

// TemplateKeeper keeps the last good files of a site in a ConfigMap, see [templateset.Keeper].
type TemplateKeeper struct {
	// ConfigMaps are those of the manager's own namespace.
	ConfigMaps corev1client.ConfigMapInterface
	// Elected is closed when this manager is the one that works; nil means that there is no other one.
	Elected <-chan struct{}
}

// Load returns what was kept, or nil.
func (k TemplateKeeper) Load(ctx context.Context) ([]byte, error) {
	c, err := k.ConfigMaps.Get(ctx, KeptTemplates, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read ConfigMap %s: %w", KeptTemplates, err)
	}
	return c.BinaryData[keptKey], nil
}

// Save keeps data as soon as this manager is the one that works: one that waits writes nothing. The API server takes up to a MiB.
func (k TemplateKeeper) Save(ctx context.Context, data []byte) error {
	if k.Elected != nil {
		select {
		case <-k.Elected:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: KeptTemplates}, BinaryData: map[string][]byte{keptKey: data}}
	_, err := k.ConfigMaps.Update(ctx, c, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = k.ConfigMaps.Create(ctx, c, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("write ConfigMap %s: %w", KeptTemplates, err)
	}
	return nil
}
