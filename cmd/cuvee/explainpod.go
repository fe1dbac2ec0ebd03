package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	claimResource       = schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}
	statefulSetResource = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}
	eventResource       = schema.GroupVersionResource{Version: "v1", Resource: "events"}
)

// find returns an object of the VM's, nil if it is not there.
func (e *explanation) find(ctx context.Context, resource schema.GroupVersionResource, name string) (*unstructured.Unstructured, error) {
	object, err := e.cluster.in(resource).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, e.cluster.failed(err)
	}
	return object, nil
}

func (e *explanation) statefulSet(ctx context.Context) (*unstructured.Unstructured, link) {
	const name = "StatefulSet"
	set, err := e.find(ctx, statefulSetResource, e.name)
	switch {
	case err != nil:
		return nil, notSeen(name, err)
	case set == nil:
		return nil, link{name: name, verdict: waiting, says: []string{"has not been made"}, hint: "what the manager says above is the reason"}
	}
	replicas := number(set.Object, "spec", "replicas")
	l := link{name: name, verdict: fine, says: []string{fmt.Sprintf("wants %d of its pod", replicas)}}
	if e.runs != (replicas > 0) {
		l.verdict = waiting
	}
	if e.runs && number(set.Object, "status", "replicas") < replicas {
		if warning := e.warning(ctx, "StatefulSet", e.name); warning != "" {
			l.verdict, l.says = wrong, append(l.says, warning)
		}
	}
	return set, l
}

// claims are a link for each claim that has no volume, or one for all.
func (e *explanation) claims(ctx context.Context, set *unstructured.Unstructured) []link {
	var links []link
	bound := 0
	for _, volume := range items(set.Object, "spec", "template", "spec", "volumes") {
		name := text(volume, "persistentVolumeClaim", "claimName")
		if name == "" {
			continue
		}
		claim, err := e.find(ctx, claimResource, name)
		switch {
		case err != nil:
			return append(links, notSeen("claims", err))
		case claim == nil:
			links = append(links, link{name: "claims", verdict: wrong, says: []string{name + " is not there"}, hint: hint("RepositoryUnbound")})
		case text(claim.Object, "status", "phase") != "Bound":
			l := link{name: "claims", verdict: waiting, says: []string{name + " has no volume"}, hint: hint("ClaimPending")}
			if warning := e.warning(ctx, "PersistentVolumeClaim", name); warning != "" {
				l.verdict, l.says = wrong, append(l.says, warning)
			}
			links = append(links, l)
		default:
			bound++
		}
	}
	if len(links) == 0 {
		return []link{{name: "claims", verdict: fine, says: []string{fmt.Sprintf("all %d have volumes", bound)}}}
	}
	return links
}

func (e *explanation) pod(ctx context.Context) (*unstructured.Unstructured, link) {
	const name = "pod"
	pod, err := e.find(ctx, podResource, e.name+"-0")
	switch {
	case err != nil:
		return nil, notSeen(name, err)
	case pod == nil && !e.runs:
		return nil, link{name: name, verdict: fine, says: []string{"there is none"}}
	case pod == nil:
		return nil, link{name: name, verdict: waiting, says: []string{"has not been made"}, hint: hint("WaitingForPod")}
	case pod.GetDeletionTimestamp() != nil:
		return pod, link{name: name, verdict: waiting, says: []string{"is being deleted; its guest powers down"}, hint: hint("PodTerminating")}
	}
	l := link{name: name, verdict: fine, says: []string{text(pod.Object, "status", "phase") + on(pod)}}
	if text(pod.Object, "status", "phase") != "Running" {
		l.verdict = waiting
	}
	if scheduled := conditionOf(pod.Object, "PodScheduled"); scheduled.status == "False" {
		l.verdict, l.says, l.hint = wrong, []string{"no node takes it: " + scheduled.message}, hint("Unschedulable")
		return pod, l
	}
	if troubles := containerTroubles(pod); len(troubles) > 0 {
		l.verdict, l.says, l.hint = wrong, append(l.says, troubles...), "kubectl -n "+e.cluster.namespace+" logs "+pod.GetName()+" --all-containers --previous has the last words"
	}
	if l.verdict != fine {
		if warning := e.warning(ctx, "Pod", pod.GetName()); warning != "" {
			l.says = append(l.says, warning)
		}
	}
	return pod, l
}

func on(pod *unstructured.Unstructured) string {
	if node := text(pod.Object, "spec", "nodeName"); node != "" {
		return " on " + node
	}
	return ""
}

// containerTroubles are those of a pod's containers that do not run.
func containerTroubles(pod *unstructured.Unstructured) []string {
	var troubles []string
	for _, c := range slices.Concat(items(pod.Object, "status", "initContainerStatuses"), items(pod.Object, "status", "containerStatuses")) {
		reason := text(c, "state", "waiting", "reason")
		if reason == "" || reason == "ContainerCreating" || reason == "PodInitializing" {
			continue
		}
		trouble := text(c, "name") + ": " + reason
		if message := text(c, "state", "waiting", "message"); message != "" {
			trouble += ": " + message
		}
		if last := text(c, "lastState", "terminated", "exitCode"); last != "" {
			trouble += fmt.Sprintf(" (it ended with exit code %s, for the %s. time)", last, text(c, "restartCount"))
		}
		troubles = append(troubles, trouble)
	}
	return troubles
}

// warning is the newest warning about an object, "" if there is none. Who may not read Events does without.
func (e *explanation) warning(ctx context.Context, kind, name string) string {
	selector := "type=Warning,involvedObject.kind=" + kind + ",involvedObject.name=" + name
	list, err := e.cluster.in(eventResource).List(ctx, metav1.ListOptions{FieldSelector: selector})
	if err != nil || len(list.Items) == 0 {
		return ""
	}
	newest := slices.MaxFunc(list.Items, func(a, b unstructured.Unstructured) int { return strings.Compare(when(a), when(b)) })
	return text(newest.Object, "reason") + ": " + text(newest.Object, "message")
}

// when is when an Event was last seen. The texts sort as the times do.
func when(event unstructured.Unstructured) string {
	for _, path := range [][]string{{"series", "lastObservedTime"}, {"lastTimestamp"}, {"eventTime"}} {
		if at := text(event.Object, path...); at != "" {
			return at
		}
	}
	return event.GetCreationTimestamp().UTC().Format(metav1.RFC3339Micro)
}
