package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/time/rate"

	"github.com/cuvee-vm/cuvee/runner"
)

// ReportingController is who Events about VMs come from.
const ReportingController = "vmoperator.jdrupes.org/vm-runner"

// event is events.k8s.io/v1 Event.
type event struct {
	APIVersion          string          `json:"apiVersion"`
	Kind                string          `json:"kind"`
	Metadata            eventMetadata   `json:"metadata"`
	EventTime           string          `json:"eventTime"`
	ReportingController string          `json:"reportingController"`
	ReportingInstance   string          `json:"reportingInstance"`
	Action              string          `json:"action"`
	Reason              string          `json:"reason"`
	Regarding           objectReference `json:"regarding"`
	Note                string          `json:"note"`
	Type                string          `json:"type"`
}

type eventMetadata struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

// objectReference is v1 ObjectReference.
type objectReference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
	UID        string `json:"uid,omitempty"`
}

// The limits of an Event's fields.
const (
	maxNote   = 1024
	maxReason = 128
)

// eventTTL is how long an event is of interest: that long API servers keep it.
const eventTTL = time.Hour

// EventWriter writes what happens to a VM as Events.
type EventWriter struct {
	client *Client
	vm     VM
	pod    Pod
	source Source
	log    *slog.Logger
	pace   pace
	limit  *rate.Limiter
	uid    string
}

// NewEventWriter makes an EventWriter. The pod's name is the events' instance.
func NewEventWriter(c *Client, vm VM, pod Pod, source Source, log *slog.Logger) *EventWriter {
	return newEventWriter(c, vm, pod, source, log, defaultPace)
}

func newEventWriter(c *Client, vm VM, pod Pod, source Source, log *slog.Logger, p pace) *EventWriter {
	// Events that come too fast are lost, the oldest first, in the source's own buffer.
	return &EventWriter{client: c, vm: vm, pod: pod, source: source, log: log, pace: p, limit: rate.NewLimiter(rate.Every(5*time.Second), 25)}
}

// Run writes events until the source has no more of them. When the context ends, it has a short time for those that wait.
func (w *EventWriter) Run(ctx context.Context) {
	writing, cancel := withLastWords(ctx, w.pace.last)
	defer cancel()
	for {
		select {
		case e, ok := <-w.source.Events():
			if !ok {
				return
			}
			w.write(writing, e)
			continue
		default:
		}
		// All that has happened is written.
		select {
		case <-ctx.Done():
			return
		case e, ok := <-w.source.Events():
			if !ok {
				return
			}
			w.write(writing, e)
		}
	}
}

// write tries until the event is written or of no interest any more.
func (w *EventWriter) write(ctx context.Context, e runner.Event) {
	ctx, cancel := context.WithDeadline(ctx, e.Time.Add(eventTTL))
	defer cancel()
	if w.limit.Wait(ctx) != nil {
		return
	}
	retry(ctx, w.pace, w.log, "write an event", func(ctx context.Context) error {
		if err := w.recall(ctx); err != nil {
			return err
		}
		err := w.client.do(ctx, request{
			method:      http.MethodPost,
			path:        "/apis/events.k8s.io/v1/namespaces/" + url.PathEscape(w.vm.Namespace) + "/events",
			contentType: contentJSON,
			body:        w.event(e),
		}, nil)
		switch {
		case hasCode(err, http.StatusConflict):
			// It has arrived before.
			return nil
		case hasCode(err, http.StatusUnprocessableEntity), hasCode(err, http.StatusBadRequest), hasCode(err, http.StatusNotFound):
			w.log.Warn("event is left out", "reason", e.Reason, "error", err)
			return nil
		}
		return err
	})
}

// recall finds out the UID of the VirtualMachine, once: without it kubectl describe does not show its events.
func (w *EventWriter) recall(ctx context.Context) error {
	if w.uid != "" {
		return nil
	}
	m, err := w.client.virtualMachine(ctx, w.vm)
	if hasCode(err, http.StatusNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	w.uid = m.Metadata.UID
	return nil
}

func (w *EventWriter) event(e runner.Event) event {
	kindOf := "Normal"
	if e.Warning {
		kindOf = "Warning"
	}
	note := e.Message
	if note == "" {
		note = e.Reason
	}
	return event{
		APIVersion: "events.k8s.io/v1",
		Kind:       "Event",
		// The name says which event it is, so that one that arrived without our knowing is not written twice.
		Metadata:            eventMetadata{Name: fmt.Sprintf("%s.%x", w.vm.Name, e.Time.UnixNano()), Namespace: w.vm.Namespace},
		EventTime:           apiMicroTime(e.Time),
		ReportingController: ReportingController,
		ReportingInstance:   cut(w.pod.Name, maxReason),
		Action:              "StatusUpdate",
		Reason:              cut(e.Reason, maxReason),
		Regarding:           objectReference{APIVersion: apiVersion, Kind: kind, Namespace: w.vm.Namespace, Name: w.vm.Name, UID: w.uid},
		Note:                cut(note, maxNote),
		Type:                kindOf,
	}
}

// withLastWords returns a context that ends some time after another.
func withLastWords(ctx context.Context, more time.Duration) (context.Context, context.CancelFunc) {
	later, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		sleep(later, more)
		cancel()
	})
	return later, func() {
		stop()
		cancel()
	}
}
