package controller

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cuvee-vm/cuvee/controller/apiserver"
)

// maxNote is how long the API allows an Event's note to be.
const maxNote = 1024

// event tells of something that has happened with the custom resource.
func (p *pass) event(kind, reason, action, note string) {
	recorder := p.options.Recorder
	if p.options.OnceRecorder != nil && p.liveStatus()[observedGeneration] == nil {
		recorder = p.options.OnceRecorder
	}
	if recorder == nil || note == "" {
		return
	}
	body, _ := p.identity()
	recorder.Eventf(&unstructured.Unstructured{Object: body}, nil, kind, reason, action, "%s", shorten(note, maxNote))
}

// note remembers a write for the Event of the pass.
func (p *pass) note(verb string, ref apiserver.Ref) { p.did = append(p.did, verb+" "+ref.String()) }

// eventOfWrites is one Event for all that a pass has made and removed. Updates tell nothing that is not in the object.
func (p *pass) eventOfWrites() {
	by := map[string][]string{}
	for _, d := range p.did {
		verb, what, _ := strings.Cut(d, " ")
		by[verb] = append(by[verb], what)
	}
	for _, verb := range slices.Sorted(maps.Keys(by)) {
		if verb != "Updated" {
			p.event(corev1.EventTypeNormal, verb, "Apply", verb+" "+strings.Join(by[verb], ", "))
		}
	}
	p.did = nil
}

// flip is a condition that changes.
type flip struct{ kind, reason, note string }

// flips are the conditions that are about to change their status. One that was not there has not changed: of a new resource
// all are such. A problem of the pass is told whenever it is another one, as Ready may be False already.
func (p *pass) flips(desired map[string]any, pr *problem) []flip {
	live, next := conditionsOf(p.liveStatus()), conditionsOf(desired)
	var out []flip
	for _, t := range slices.Sorted(maps.Keys(next)) {
		c, was := next[t], live[t]
		switch {
		case t == conditionReconciling || t == conditionStalled:
			continue // They follow from Ready.
		case t == conditionReady && pr != nil:
			if isNews(pr, was) {
				out = append(out, flip{pr.eventType(), pr.reason, text(c["message"])})
			}
		case was != nil && was["status"] != c["status"]:
			out = append(out, flip{corev1.EventTypeNormal, text(c["reason"]), noteOf(t, c)})
		}
	}
	return out
}

// eventsOfParting are what the templates have to say when the custom resource has gone, such as what stays behind.
func (p *pass) eventsOfParting() {
	for _, reason := range slices.Sorted(maps.Keys(p.result.Parting)) {
		said, kind := p.result.Parting[reason], corev1.EventTypeNormal
		if said.Warning {
			kind = corev1.EventTypeWarning
		}
		p.event(kind, reason, "Delete", said.Message)
	}
}

// isNews says that a problem is not the one that Ready tells of already. One that may pass comes with another text each time.
func isNews(pr *problem, ready map[string]any) bool {
	if ready["status"] != "False" || ready["reason"] != pr.reason {
		return true
	}
	return pr.stalled && ready["message"] != shorten(pr.message, maxMessage)
}

// eventType is that of the Event about a problem. Something that only has to end first is none to worry about.
func (p *problem) eventType() string {
	if p.reason == reasonWaitingForEnd {
		return corev1.EventTypeNormal
	}
	return corev1.EventTypeWarning
}

// noteOf is what an Event says about a condition.
func noteOf(t string, condition map[string]any) string {
	if m := text(condition["message"]); m != "" {
		return m
	}
	return fmt.Sprintf("%s is %s", t, condition["status"])
}

func (p *pass) eventsOfFlips(flips []flip) {
	for _, f := range flips {
		p.event(f.kind, f.reason, "StatusUpdate", f.note)
	}
}
