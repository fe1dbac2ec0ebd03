package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/cuvee-vm/cuvee"
	"github.com/cuvee-vm/cuvee/controller"
	"github.com/cuvee-vm/cuvee/controller/templateset"
)

// templatesPage is served beside the metrics.
const templatesPage = "/templates"

// templateStore has the templates to work with, and tells of those that it refuses.
func (o *options) templateStore(ctx context.Context, mgr manager.Manager, log *slog.Logger, check templateset.Check) (*templateset.Store, error) {
	client, err := corev1client.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("make a client of the API server: %w", err)
	}
	keeper := controller.TemplateKeeper{ConfigMaps: client.ConfigMaps(o.namespace), Elected: mgr.Elected()}
	recorder := mgr.GetEventRecorder(reporter)
	// Events are about the ConfigMap with the last good files: there is one, whatever the directory is made from.
	about := &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: controller.KeptTemplates, Namespace: o.namespace},
	}
	// A manager that waits tells nothing: the one that works has the same files.
	tell := func(kind, reason, text string) {
		select {
		case <-mgr.Elected():
			recorder.Eventf(about, nil, kind, reason, "LoadTemplates", "%s", note(text))
		default:
		}
	}
	var settings templateset.Settings
	if o.config != "" {
		settings = &configFile{path: o.config, namespace: o.namespace, log: log}
	}
	store, err := templateset.New(ctx, templateset.Options{
		BuiltIn: cuvee.Files, Directory: o.templates, Settings: settings, Check: check, Keeper: keeper, Log: log,
		Refused: func(p templateset.Problem) {
			tell(corev1.EventTypeWarning, "TemplatesRefused", p.String())
		},
		Taken: func(revision string) {
			if o.templates != "" || o.config != "" {
				tell(corev1.EventTypeNormal, "TemplatesTaken", "The files have the revision "+revision)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	if o.metrics == "0" {
		return store, nil
	}
	if err := mgr.AddMetricsServerExtraHandler(templatesPage, store); err != nil {
		return nil, fmt.Errorf("serve %s: %w", templatesPage, err)
	}
	return store, nil
}

// note is a text that is not longer than an Event may have.
func note(text string) string {
	const most = 1000
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
