package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/cuvee-vm/cuvee/runner"
	"github.com/cuvee-vm/cuvee/runner/cluster"
)

// place is where in a cluster this process is.
type place struct {
	client *cluster.Client
	vm     cluster.VM
	pod    cluster.Pod
}

// newPlace finds it out, or returns cluster.ErrNoCluster.
func newPlace(credentialsDir string, c *runner.Config) (*place, error) {
	credentials, err := cluster.InCluster(credentialsDir)
	if err != nil {
		return nil, err
	}
	p := &place{
		client: cluster.NewClient(credentials),
		pod:    cluster.Pod{Namespace: os.Getenv("POD_NAMESPACE"), Name: os.Getenv("POD_NAME"), UID: os.Getenv("POD_UID")},
	}
	if p.pod.Namespace == "" || p.pod.Name == "" || p.pod.UID == "" {
		return nil, errors.New("in a cluster the environment must have POD_NAMESPACE, POD_NAME and POD_UID (see templates/vm/pod.cue)")
	}
	p.vm = cluster.VM{Namespace: p.pod.Namespace, Name: c.Boot.Name}
	return p, nil
}

// runIn runs the VM in a cluster: reports about it, holds its lease, and does what is due when its guest has shut down.
func (m *machine) runIn(ctx context.Context, p *place) (int, error) {
	vm := m.vm.Load()
	reporter := cluster.NewReporter(p.client, p.vm, p.pod, vm, m.ram, version, m.log)
	events := cluster.NewEventWriter(p.client, p.vm, p.pod, vm, m.log)
	telling, enough := context.WithCancel(context.Background())
	var tellers sync.WaitGroup
	tellers.Go(func() { reporter.Run(telling) })
	tellers.Go(func() { events.Run(telling) })
	// The last status and events are sent before the process ends.
	defer func() { enough(); tellers.Wait() }()

	begun := time.Now()
	end, err := p.runLeased(ctx, m, reporter.Waits)
	if err != nil || end != runner.EndGuest {
		code := runner.ExitCode(end, err)
		if errors.Is(err, cluster.ErrLeaseLost) {
			code = runner.ExitForced
		}
		return code, err
	}
	cluster.GuestShutdown{
		Client: p.client, VM: p.vm, Pod: p.pod,
		Stops: m.newest.Load().Live.GuestShutdownStops,
		Ran:   time.Since(begun),
		Log:   m.log,
	}.Follow(ctx)
	return runner.ExitStopped, nil
}

// releaseTimeout is how long giving back the lease may hold up the end.
const releaseTimeout = 2 * time.Second

// runLeased runs the VM while it has its lease, if it needs one.
func (p *place) runLeased(ctx context.Context, m *machine, waits func(string)) (runner.End, error) {
	o := m.newest.Load().Boot.Lease
	if o == nil {
		return m.vm.Load().Run(ctx)
	}
	lease := cluster.NewLease(p.client, p.vm, p.pod, cluster.LeaseOptions{
		Name: o.Name, Duration: time.Duration(o.Duration) * time.Second, Strict: o.Strict, Waits: waits,
	}, m.log)
	if err := lease.Acquire(ctx); err != nil {
		// A stop was requested before there was anything to stop.
		m.log.Info("start is called off", "error", err)
		return runner.EndCalledOff, nil
	}
	holding, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	lost := make(chan error, 1)
	go func() {
		err := lease.Hold(holding)
		if err != nil {
			m.end()
		}
		lost <- err
	}()
	end, err := m.vm.Load().Run(ctx)
	cancel()
	if loss := <-lost; loss != nil {
		return "", fmt.Errorf("end QEMU: %w", loss)
	}
	releasing, done := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer done()
	if err := lease.Release(releasing); err != nil {
		m.log.Warn("lease is not given back, the next runner has to wait for its end", "error", err)
	}
	return end, err
}
