package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	eventsv1client "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// reporter is the controller that Events name.
const reporter = "cuvee-manager"

// writeEvent is how often, and after what times, an Event is written that the API server does not take: for half a minute.
var writeEvent = wait.Backoff{Duration: time.Second, Factor: 2, Steps: 6, Jitter: 0.2}

// eventWriters is how many Events are written at a time. Others wait for them, and of more than a thousand that wait the latest are lost.
const eventWriters = 8

// onceRecorder writes Events that do not come again. client-go's own writer remembers each for minutes, to count those that do: of ten
// thousand VMs that are new these took 20 MiB. It writes until end is called, also what ends after the context.
func onceRecorder(ctx context.Context, config *rest.Config, hc *http.Client) (recorder events.EventRecorder, end func(), err error) {
	client, err := eventsv1client.NewForConfigAndClient(config, hc)
	if err != nil {
		return nil, nil, fmt.Errorf("make a client of the API server: %w", err)
	}
	sink := &events.EventSinkImpl{Interface: client}
	broadcaster := events.NewBroadcaster(sink)
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	var writers errgroup.Group
	writers.SetLimit(eventWriters)
	if _, err := broadcaster.StartEventWatcher(func(object runtime.Object) {
		event, ok := object.(*eventsv1.Event)
		if !ok {
			return
		}
		writers.Go(func() error {
			if err := write(ctx, sink, event.DeepCopy()); err != nil && ctx.Err() == nil {
				ctrllog.Log.Error(err, "cannot write an Event", "namespace", event.Namespace, "name", event.Regarding.Name, "reason", event.Reason)
			}
			return nil
		})
	}); err != nil {
		stop()
		return nil, nil, fmt.Errorf("record Events: %w", err)
	}
	end = func() {
		broadcaster.Shutdown()
		stop()
	}
	return broadcaster.NewRecorder(runtime.NewScheme(), reporter), end, nil
}

// write writes an Event, and again if the API server cannot be reached, or is not able to.
func write(ctx context.Context, sink events.EventSink, event *eventsv1.Event) error {
	var last error
	err := wait.ExponentialBackoffWithContext(ctx, writeEvent, func(ctx context.Context) (done bool, _ error) {
		_, last = sink.Create(ctx, event)
		if apierrors.IsAlreadyExists(last) {
			last = nil // An answer was lost.
		}
		var answer apierrors.APIStatus
		refused := errors.As(last, &answer) && answer.Status().Code < http.StatusInternalServerError && !apierrors.IsTooManyRequests(last)
		return last == nil || refused, nil
	})
	return cmp.Or(last, err)
}
