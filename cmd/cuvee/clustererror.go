package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cuvee-vm/cuvee/render"
)

// errNotFound says that something is not in the cluster.
var errNotFound = errors.New("not found")

// errForbidden says that the user may not do something.
var errForbidden = errors.New("not allowed")

// errUnreachable says that a cluster does not answer.
var errUnreachable = errors.New("cannot be reached")

// failed makes an error of the API server, or of the way there, one that says what is to be done about it.
func (c *cluster) failed(err error) error {
	var network net.Error
	var address *url.Error
	switch {
	case err == nil || errors.Is(err, context.Canceled):
		return err
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the cluster at %s does not know the credentials of the kubeconfig: %w", c.config.Host, err)
	case apierrors.IsForbidden(err):
		// The server names the user, and the right that is missing.
		return fmt.Errorf("%w: %w", errForbidden, err)
	case apierrors.IsNotFound(err) && noKind(err):
		return fmt.Errorf("the cluster at %s has no VirtualMachines: its CustomResourceDefinition is not installed (%w)", c.config.Host, errNotFound)
	case errors.As(err, &network) || errors.As(err, &address):
		return fmt.Errorf("the cluster at %s %w: %w", c.config.Host, errUnreachable, cause(err))
	}
	return err
}

// noKind tells the answer of a server that does not have a kind from the one that has no object of that name.
func noKind(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details == nil || details.Name == "" || slices.ContainsFunc(details.Causes, func(c metav1.StatusCause) bool {
		return c.Type == metav1.CauseTypeUnexpectedServerResponse
	})
}

// cause leaves out the URL of a request, which says nothing to a user.
func cause(err error) error {
	var address *url.Error
	if errors.As(err, &address) {
		return address.Err
	}
	return err
}

// noVM says that there is no VM of a name, and which there are.
func (c *cluster) noVM(ctx context.Context, name string) error {
	err := fmt.Errorf("%s/%s: %w", c.namespace, name, errNotFound)
	names, listErr := c.names(ctx)
	switch {
	case listErr != nil:
		return err
	case len(names) == 0:
		return fmt.Errorf("%w; there are no VMs in this namespace", err)
	}
	return fmt.Errorf("%w; %s", err, thereAre(name, names))
}

// mostNames is how many names an error lists.
const mostNames = 10

// thereAre lists names, with the one that was probably meant.
func thereAre(wrong string, names []string) string {
	listed := names
	more := ""
	if len(listed) > mostNames {
		listed, more = names[:mostNames], fmt.Sprintf(" and %d more", len(names)-mostNames)
	}
	text := "there are: " + strings.Join(listed, ", ") + more
	if meant := nearest(wrong, names); meant != "" && len(names) > 1 {
		return fmt.Sprintf("did you mean %s? %s", meant, text)
	}
	return text
}

// nearest is the name that is most like a wrong one; "" if none is.
func nearest(wrong string, names []string) string {
	best, found := len(wrong)/2+1, ""
	for _, name := range names {
		if d := render.EditDistance(wrong, name); d < best {
			best, found = d, name
		}
	}
	return found
}
