package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"
)

// ErrLeaseLost says that the VM must not run any longer, as its Lease is another's, or may be.
var ErrLeaseLost = errors.New("lease lost")

// Lease keeps two runners from running one VM on the same block volumes: only the one that holds it may. QEMU's own locks do not
// help there, as each pod has a device node of its own (coordination.k8s.io/v1 Lease).
//
// Clocks of nodes are never compared. One who waits takes a Lease that has not been renewed for its duration by the waiter's
// own clock, which goes on only while the API server answers: when that is away for all, nobody takes anything.
type Lease struct {
	client *Client
	vm     VM
	name   string
	// holder is this pod: a restarted container goes on with what the last one held, which is dead with all its processes.
	holder string
	// duration is after which time without renewal others may take it.
	duration time.Duration
	// strict ends it when it could not be renewed in time.
	strict bool
	waits  func(string)
	log    *slog.Logger

	// version is the resourceVersion that was seen last.
	version string
	// renewed is when the last successful renewal was begun.
	renewed time.Time
}

// LeaseOptions describe a Lease.
type LeaseOptions struct {
	Name string
	// Duration is how long it is the holder's after each renewal.
	Duration time.Duration
	// Strict says that it is lost when it could not be renewed for two thirds of the duration. Otherwise it is lost only when the API
	// server says that another one holds it.
	Strict bool
	// Waits is told what Acquire waits for.
	Waits func(message string)
}

// NewLease makes a Lease of a VM that a pod may hold.
func NewLease(c *Client, vm VM, pod Pod, o LeaseOptions, log *slog.Logger) *Lease {
	return &Lease{
		client: c, vm: vm, name: o.Name, holder: pod.Name + "/" + pod.UID,
		duration: o.Duration, strict: o.Strict, waits: o.Waits, log: log.With("lease", o.Name),
	}
}

// leaseObject is what of a Lease is read and written.
type leaseObject struct {
	APIVersion string        `json:"apiVersion,omitempty"`
	Kind       string        `json:"kind,omitempty"`
	Metadata   leaseMetadata `json:"metadata"`
	Spec       leaseSpec     `json:"spec"`
}

type leaseMetadata struct {
	Name            string           `json:"name,omitempty"`
	Namespace       string           `json:"namespace,omitempty"`
	ResourceVersion string           `json:"resourceVersion,omitempty"`
	OwnerReferences []ownerReference `json:"ownerReferences,omitempty"`
}

type ownerReference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
}

type leaseSpec struct {
	// HolderIdentity is null if nobody holds it.
	HolderIdentity       *string `json:"holderIdentity"`
	LeaseDurationSeconds int     `json:"leaseDurationSeconds,omitempty"`
	AcquireTime          string  `json:"acquireTime,omitempty"`
	RenewTime            string  `json:"renewTime,omitempty"`
	LeaseTransitions     int     `json:"leaseTransitions,omitempty"`
}

func (s leaseSpec) holder() string {
	if s.HolderIdentity == nil {
		return ""
	}
	return *s.HolderIdentity
}

// Acquire waits until the Lease is held, or the context ends, whose error it then returns.
func (l *Lease) Acquire(ctx context.Context) error {
	var seen leaseObject
	var since time.Time
	wait := l.backoff()
	complaint := complaint{log: l.log, what: "acquire the lease of the VM's block volumes"}
	for {
		err := l.try(ctx, &seen, &since)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			complaint.tell(nil)
			return nil
		}
		complaint.tell(err)
		if l.waits != nil {
			l.waits(err.Error())
		}
		delay := l.interval()
		if !errors.Is(err, errHeld) {
			// The holder could not renew it either, so what has been seen until now counts for nothing.
			seen = leaseObject{}
			delay = wait.next(err)
		}
		if !sleep(ctx, delay) {
			return ctx.Err()
		}
	}
}

// errHeld says that another one holds the Lease.
var errHeld = errors.New("lease is held")

// try takes the Lease if it is free, ours, or has not changed since it was seen for its duration.
func (l *Lease) try(ctx context.Context, seen *leaseObject, since *time.Time) error {
	begun := time.Now()
	now, err := l.get(ctx)
	if hasCode(err, http.StatusNotFound) {
		return l.create(ctx, begun)
	}
	if err != nil {
		return err
	}
	if now.Metadata.ResourceVersion != seen.Metadata.ResourceVersion {
		*seen, *since = *now, begun
	}
	holder := now.Spec.holder()
	if holder != "" && holder != l.holder && begun.Sub(*since) < l.patience(now) {
		return fmt.Errorf("%w by %s", errHeld, holder)
	}
	spec := leaseSpec{LeaseTransitions: now.Spec.LeaseTransitions, AcquireTime: now.Spec.AcquireTime}
	if holder != l.holder {
		spec.LeaseTransitions++
		spec.AcquireTime = apiMicroTime(begun)
	}
	l.version = now.Metadata.ResourceVersion
	return l.patch(ctx, spec, begun)
}

// patience is how long a Lease has to be left alone before it is taken: as its holder says, who may have another template.
func (l *Lease) patience(o *leaseObject) time.Duration {
	return max(l.duration, time.Duration(o.Spec.LeaseDurationSeconds)*time.Second)
}

// Hold renews the Lease until the context ends, and returns nil then, or ErrLeaseLost.
func (l *Lease) Hold(ctx context.Context) error {
	wait := l.backoff()
	complaint := complaint{log: l.log, what: "renew the lease of the VM's block volumes"}
	delay := l.interval()
	for {
		if left := time.Until(l.renewed.Add(l.duration * 2 / 3)); l.strict && left < delay {
			delay = left
		}
		if !sleep(ctx, delay) {
			return nil
		}
		err := l.renew(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrLeaseLost):
			return err
		case err != nil && l.strict && time.Since(l.renewed) >= l.duration*2/3:
			return fmt.Errorf("%w: not renewed for %s: %w", ErrLeaseLost, time.Since(l.renewed).Round(time.Second), err)
		}
		complaint.tell(err)
		delay = l.interval()
		if err != nil {
			delay = wait.next(err)
			continue
		}
		wait.reset()
	}
}

// renew renews the Lease, whatever has happened to it, as long as it is no one else's.
func (l *Lease) renew(ctx context.Context) error {
	begun := time.Now()
	if l.strict {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, l.renewed.Add(l.duration*2/3))
		defer cancel()
	}
	err := l.patch(ctx, leaseSpec{}, begun)
	if hasCode(err, http.StatusNotFound) {
		// Somebody has deleted it. If another one is faster now, that is a conflict next time.
		err = l.create(ctx, begun)
	}
	if !hasCode(err, http.StatusConflict) {
		return err
	}
	now, err := l.get(ctx)
	if err != nil {
		return err
	}
	if now.Spec.holder() != l.holder {
		return fmt.Errorf("%w: %s holds it", ErrLeaseLost, now.Spec.holder())
	}
	l.version = now.Metadata.ResourceVersion
	return l.patch(ctx, leaseSpec{}, begun)
}

// Release gives the Lease back, so that the next runner need not wait. It is for one that QEMU has ended for.
func (l *Lease) Release(ctx context.Context) error {
	if l.version == "" {
		return nil
	}
	err := l.write(ctx, leaseSpec{}, time.Now())
	if !hasCode(err, http.StatusConflict) {
		return err
	}
	// The last renewal may have come to the server, but not its answer to us.
	now, err := l.get(ctx)
	if err != nil || now.Spec.holder() != l.holder {
		return err
	}
	l.version = now.Metadata.ResourceVersion
	return l.write(ctx, leaseSpec{}, time.Now())
}

// patch writes that the Lease is ours.
func (l *Lease) patch(ctx context.Context, spec leaseSpec, begun time.Time) error {
	spec.HolderIdentity = &l.holder
	spec.LeaseDurationSeconds = int(l.duration / time.Second)
	spec.RenewTime = apiMicroTime(begun)
	return l.write(ctx, spec, begun)
}

// write changes the Lease if it is the one that was seen last.
func (l *Lease) write(ctx context.Context, spec leaseSpec, begun time.Time) error {
	var now leaseObject
	err := l.client.do(ctx, request{
		method:      http.MethodPatch,
		path:        l.path() + "/" + url.PathEscape(l.name),
		contentType: contentMerge,
		query:       url.Values{"fieldManager": {FieldManager}},
		body:        leaseObject{Metadata: leaseMetadata{ResourceVersion: l.version}, Spec: spec},
	}, &now)
	if err != nil {
		return fmt.Errorf("write lease: %w", err)
	}
	l.version, l.renewed = now.Metadata.ResourceVersion, begun
	return nil
}

// create makes the Lease, as something of the VirtualMachine that goes with it.
func (l *Lease) create(ctx context.Context, begun time.Time) error {
	m, err := l.client.virtualMachine(ctx, l.vm)
	if err != nil {
		return err
	}
	var now leaseObject
	err = l.client.do(ctx, request{
		method:      http.MethodPost,
		path:        l.path(),
		contentType: contentJSON,
		query:       url.Values{"fieldManager": {FieldManager}},
		body: leaseObject{
			APIVersion: "coordination.k8s.io/v1",
			Kind:       "Lease",
			Metadata: leaseMetadata{
				Name: l.name, Namespace: l.vm.Namespace,
				OwnerReferences: []ownerReference{{APIVersion: apiVersion, Kind: kind, Name: l.vm.Name, UID: m.Metadata.UID}},
			},
			Spec: leaseSpec{
				HolderIdentity: &l.holder, LeaseDurationSeconds: int(l.duration / time.Second),
				AcquireTime: apiMicroTime(begun), RenewTime: apiMicroTime(begun),
			},
		},
	}, &now)
	if err != nil {
		return fmt.Errorf("create lease: %w", err)
	}
	l.version, l.renewed = now.Metadata.ResourceVersion, begun
	return nil
}

func (l *Lease) get(ctx context.Context) (*leaseObject, error) {
	var now leaseObject
	err := l.client.do(ctx, request{method: http.MethodGet, path: l.path() + "/" + url.PathEscape(l.name)}, &now)
	if err != nil {
		return nil, fmt.Errorf("get lease: %w", err)
	}
	return &now, nil
}

func (l *Lease) path() string {
	return "/apis/coordination.k8s.io/v1/namespaces/" + url.PathEscape(l.vm.Namespace) + "/leases"
}

// interval is the time between renewals: several may fail before it is too late.
func (l *Lease) interval() time.Duration { return l.duration / 6 }

func (l *Lease) backoff() *backoff {
	return &backoff{least: l.interval() / 8, most: l.interval()}
}
