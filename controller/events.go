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
	if p.options.Recorder == nil || note == "" {
		return
	}
	body, _ := p.identity()
	p.options.Recorder.Eventf(&unstructured.Unstructured{Object: body}, nil, kind, reason, action, "%s", shorten(note, maxNote))
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

// flip is a condition that changes its status.
type flip struct{ kind, reason, note string }

// flips are the conditions that are about to change their status.
func (p *pass) flips(desired map[string]any) []flip {
	live := conditionsOf(p.liveStatus())
	var out []flip
	for _, item := range slices.Sorted(maps.Keys(conditionsOf(desired))) {
		c := conditionsOf(desired)[item]
		was, ok := live[item]
		if item == conditionReconciling || item == conditionStalled || ok && was["status"] == c["status"] || !ok && text(c["message"]) == "" {
			continue
		}
		f := flip{corev1.EventTypeNormal, text(c["reason"]), text(c["message"])}
		if item == conditionReady && c["status"] == "False" && text(c["reason"]) != reasonDeleting {
			f.kind = corev1.EventTypeWarning
		}
		if f.note == "" {
			f.note = fmt.Sprintf("%s is %s", item, c["status"])
		}
		out = append(out, f)
	}
	return out
}

func (p *pass) eventsOfFlips(flips []flip) {
	for _, f := range flips {
		p.event(f.kind, f.reason, "StatusUpdate", f.note)
	}
}
