package controller

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	authorizationv1client "k8s.io/client-go/kubernetes/typed/authorization/v1"

	"github.com/cuvee-vm/cuvee/controller/watch"
)

// crds is the kind that tells which other kinds there are.
var crds = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// watchDefinitions brings an update whenever a CustomResourceDefinition changes. These are objects of the cluster, which a manager
// with rights in its namespace only may not see: then kinds that come are noticed a little later, as they are looked for
// now and then. It returns false if it has to be tried again.
func (e *Engine) watchDefinitions(ctx context.Context, kinds *watch.Set) bool {
	may, err := e.maySeeDefinitions(ctx)
	if err == nil && !may {
		e.options.Log.Info("no right to watch CustomResourceDefinitions: a kind that is installed later is noticed with a delay", "delay", retry.String())
		return true
	}
	if err == nil {
		_, _, err = kinds.Update(ctx, map[schema.GroupVersionKind]watch.Want{crds: {}})
	}
	if err != nil && ctx.Err() == nil {
		e.options.Log.Error(err, "cannot watch CustomResourceDefinitions yet; trying again")
	}
	return err == nil
}

// maySeeDefinitions asks before, as a watch that is denied would be tried for ever.
func (e *Engine) maySeeDefinitions(ctx context.Context) (bool, error) {
	client, err := authorizationv1client.NewForConfigAndClient(e.options.Config, e.options.HTTPClient)
	if err != nil {
		return false, fmt.Errorf("make a client of the API server: %w", err)
	}
	for _, verb := range []string{"list", "watch"} {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Group: crds.Group, Resource: "customresourcedefinitions", Verb: verb},
		}}
		answer, err := client.SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return false, fmt.Errorf("ask for the right to %s CustomResourceDefinitions: %w", verb, err)
		}
		if !answer.Status.Allowed {
			return false, nil
		}
	}
	return true, nil
}
