package controller

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/cuvee-vm/cuvee/controller/apiserver"
	"github.com/cuvee-vm/cuvee/render"
)

// The reasons of the conditions that the engine writes. They are stable: programs test them.
const (
	reasonApplied         = "Applied"
	reasonDeleting        = "Deleting"
	reasonSettled         = "Settled"
	reasonInvalidSpec     = "InvalidSpec"
	reasonTemplateError   = "TemplateError"
	reasonApplyFailed     = "ApplyFailed"
	reasonConflict        = "Conflict"
	reasonContested       = "Contested"
	reasonWaitingForWatch = "WaitingForWatch"
	reasonWaitingForKind  = "WaitingForKind"
	reasonWaitingForEnd   = "WaitingForDeletion"
)

// problem is why a pass did not do all there was to do.
type problem struct {
	reason, message string
	// stalled says that it will not go away unless someone changes something of the custom resource or the templates.
	stalled bool
	// wait says that trying again soon is of no use.
	wait bool
	err  error
}

func (p *problem) Error() string { return p.reason + ": " + p.message }

func (p *problem) Unwrap() error { return p.err }

// named is the problem under the reason that the templates have for it, if they have one.
func (p *problem) named(reason string) *problem {
	if reason == "" {
		return p
	}
	out := *p
	out.reason = reason
	return &out
}

// problemOf is the problem in an error; nil if there is no error.
func problemOf(err error) *problem {
	if err == nil {
		return nil
	}
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	return &problem{reason: reasonApplyFailed, message: err.Error(), err: err}
}

// renderProblem is why templates did not render.
func renderProblem(err error) *problem {
	if faults, ok := errors.AsType[render.Faults](err); ok {
		lines := make([]string, len(faults))
		for i, f := range faults {
			lines[i] = f.String()
		}
		return &problem{reason: reasonInvalidSpec, message: strings.Join(lines, "\n"), stalled: true, wait: true, err: err}
	}
	return &problem{reason: reasonTemplateError, message: err.Error(), stalled: true, wait: true, err: err}
}

// writeProblem is why the API server did not take an object.
func writeProblem(verb string, ref apiserver.Ref, err error) *problem {
	p := &problem{reason: reasonApplyFailed, message: fmt.Sprintf("%s %s: %v", verb, ref, err), err: err}
	switch {
	case meta.IsNoMatchError(err):
		p.reason, p.wait = reasonWaitingForKind, true
		p.message = fmt.Sprintf("%s %s: the cluster has no kind %s in %s; is its CustomResourceDefinition installed?", verb, ref, ref.Kind, ref.GroupVersion())
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		p.wait = true
	}
	return p
}
