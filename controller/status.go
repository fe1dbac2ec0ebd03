package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/cuvee-vm/cuvee/controller/managedfields"
	"github.com/cuvee-vm/cuvee/render"
)

// The conditions that the engine writes itself, as kstatus knows them. Templates may write Ready in its place.
const (
	conditionReady       = "Ready"
	conditionReconciling = "Reconciling"
	conditionStalled     = "Stalled"
)

// observedGeneration is the field that says which generation a status, or a condition, is about.
const observedGeneration = "observedGeneration"

// maxMessage is how long the API allows a condition's message to be.
const maxMessage = 32768

// liveStatus is the status as it is.
func (p *pass) liveStatus() map[string]any {
	s, _ := p.resource["status"].(map[string]any)
	return s
}

// ownStatus is our part of the status as it is.
func (p *pass) ownStatus() (map[string]any, error) {
	entry := p.item.StatusFields()
	if len(entry) == 0 {
		return map[string]any{}, nil
	}
	return ownPart(entry, p.liveStatus())
}

func ownPart(entry []byte, status map[string]any) (map[string]any, error) {
	all, err := managedfields.Owned(entry, map[string]any{"status": status})
	if err != nil {
		return nil, err
	}
	out, _ := all["status"].(map[string]any)
	if out == nil {
		out = map[string]any{}
	}
	// The order of conditions is the API server's affair.
	if list, ok := out["conditions"].([]any); ok {
		byType := conditionsOf(out)
		list = list[:0:0]
		for _, t := range slices.Sorted(maps.Keys(byType)) {
			list = append(list, byType[t])
		}
		out["conditions"] = list
	}
	return out, nil
}

// statusDigest stands for our part of the status.
func (p *pass) statusDigest() (digest, error) {
	own, err := p.ownStatus()
	if err != nil {
		return digest{}, err
	}
	data, err := json.Marshal(own)
	return digestOf(data), err
}

// reserve stores what templates want to be known before anything is applied: should the manager end in between, the next one
// knows it, too.
func (p *pass) reserve(ctx context.Context) error {
	if len(p.result.Reserve) == 0 {
		return nil
	}
	var reserve map[string]any
	if err := json.Unmarshal(p.result.Reserve, &reserve); err != nil {
		return fmt.Errorf("read reserve: %w", err)
	}
	own, err := p.ownStatus()
	if err != nil {
		return err
	}
	desired := merge(own, reserve)
	if same(desired, own) {
		return nil
	}
	return p.applyStatus(ctx, desired)
}

// writeStatus writes our part of the status if it differs. What may wait is left to a later pass.
func (p *pass) writeStatus(ctx context.Context, passErr error) error {
	own, err := p.ownStatus()
	if err != nil {
		return err
	}
	desired, err := p.desiredStatus(own, passErr)
	if err != nil {
		return err
	}
	p.keepAlong(own, desired)
	differs := !same(own, desired)
	if left := p.early(own, desired, passErr); differs && left > 0 {
		p.wakeAt(time.Now().Add(left))
	} else if differs {
		p.setAlong(desired)
		flips := p.flips(desired, problemOf(passErr))
		if err := p.applyStatus(ctx, desired); err != nil {
			return err
		}
		p.state.wrote(own)
		p.eventsOfFlips(flips)
	}
	p.setReady(desired)
	p.state.status, err = p.statusDigest()
	return err
}

// desiredStatus is our part of the status as it shall be. What could not be rendered stays as it was.
func (p *pass) desiredStatus(own map[string]any, passErr error) (map[string]any, error) {
	desired := map[string]any{}
	conditions := map[string]render.Condition{}
	if p.result != nil {
		if err := json.Unmarshal(p.result.Status, &desired); err != nil {
			return nil, fmt.Errorf("read rendered status: %w", err)
		}
		if len(p.result.Reserve) > 0 {
			var reserve map[string]any
			if err := json.Unmarshal(p.result.Reserve, &reserve); err != nil {
				return nil, fmt.Errorf("read reserve: %w", err)
			}
			desired = merge(desired, reserve)
		}
		maps.Copy(conditions, p.result.Conditions)
	} else {
		desired = maps.Clone(own)
		for t, c := range conditionsOf(own) {
			conditions[t] = render.Condition{Status: text(c["status"]), Reason: text(c["reason"]), Message: text(c["message"])}
		}
	}
	p.engineConditions(conditions, problemOf(passErr))
	desired["conditions"] = p.conditionList(conditions)
	// It is there for every kind, and also when nothing could be rendered: kstatus takes any other generation for one that
	// nobody has looked at yet.
	if g := p.generation(); g > 0 {
		desired[observedGeneration] = g
	}
	return desired, nil
}

// engineConditions adds what the engine knows: whether the pass did all there was to do.
func (p *pass) engineConditions(conditions map[string]render.Condition, pr *problem) {
	// kstatus shows the message of the one that holds, and not that of Ready.
	set := func(t string, holds bool, reason, message string) {
		c := render.Condition{Status: "False", Reason: reason}
		if holds {
			c.Status = "True"
		}
		if holds || t == conditionReady {
			c.Message = message
		}
		conditions[t] = c
	}
	switch {
	case pr != nil:
		set(conditionReady, false, pr.reason, pr.message)
		set(conditionReconciling, !pr.stalled, pr.reason, pr.message)
		set(conditionStalled, pr.stalled, pr.reason, pr.message)
		return
	case p.item.Deleting():
		set(conditionReady, false, reasonDeleting, "It is being deleted.")
		set(conditionReconciling, true, reasonDeleting, "It is being deleted.")
	case p.result != nil && hasCondition(p.result.Conditions, conditionReady):
		ready := p.result.Conditions[conditionReady]
		set(conditionReconciling, ready.Status != "True", ready.Reason, ready.Message)
	default:
		set(conditionReady, true, reasonApplied, "")
		set(conditionReconciling, false, reasonSettled, "")
	}
	set(conditionStalled, false, reasonSettled, "")
}

func hasCondition(m map[string]render.Condition, t string) bool {
	_, ok := m[t]
	return ok
}

// conditionList is the conditions as the API has them. The time of a condition changes with its status only.
func (p *pass) conditionList(conditions map[string]render.Condition) []any {
	live := conditionsOf(p.liveStatus())
	now := time.Now().UTC().Format(time.RFC3339)
	var out []any
	for _, t := range slices.Sorted(maps.Keys(conditions)) {
		c := conditions[t]
		since := now
		if l, ok := live[t]; ok && l["status"] == c.Status && text(l["lastTransitionTime"]) != "" {
			since = text(l["lastTransitionTime"])
		}
		entry := map[string]any{"type": t, "status": c.Status, "reason": c.Reason, "message": shorten(c.Message, maxMessage), "lastTransitionTime": since}
		if g := p.generation(); g > 0 {
			entry[observedGeneration] = g
		}
		out = append(out, entry)
	}
	return out
}

// conditionsOf are the conditions of a status, by type.
func conditionsOf(status map[string]any) map[string]map[string]any {
	list, _ := status["conditions"].([]any)
	out := map[string]map[string]any{}
	for _, item := range list {
		if c, ok := item.(map[string]any); ok {
			out[text(c["type"])] = c
		}
	}
	return out
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

// shorten cuts a text after the last line that fits.
func shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	s = strings.ToValidUTF8(s[:limit-len("\n…")], "")
	if i := strings.LastIndex(s, "\n"); i > 0 {
		s = s[:i]
	}
	return s + "\n…"
}

// applyStatus applies all of our part of the status. It is nobody else's, so it is taken by force: what a runner had written
// of a run that has ended, for instance.
func (p *pass) applyStatus(ctx context.Context, desired map[string]any) error {
	body, metadata := p.identity()
	// By force, but only over what this pass has seen: a runner that has just begun must not lose what it said.
	metadata["resourceVersion"] = p.item.ResourceVersion()
	body["status"] = desired
	return p.applySelf(ctx, body, "status")
}

// merge lays the entries of a struct over those of another.
func merge(under, over map[string]any) map[string]any {
	out := maps.Clone(under)
	for k, v := range over {
		u, ok1 := out[k].(map[string]any)
		o, ok2 := v.(map[string]any)
		if ok1 && ok2 {
			v = merge(u, o)
		}
		out[k] = v
	}
	return out
}

// same compares as JSON, where a number has no type.
func same(a, b map[string]any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	if errX != nil || errY != nil {
		return false
	}
	return string(x) == string(y) || reflect.DeepEqual(a, b)
}
