package runner

import (
	"context"

	"github.com/cuvee-vm/cuvee/runner/qmp"
)

// attachAgents takes up the channels of the agents in the guest, as far as the config has them.
func (v *vm) attachAgents() {
	if conn, ok := v.fds.ends[FDGuestAgent]; ok {
		g := newGuestAgent(conn, v.cfg.Boot.agentPort(FDGuestAgent), v.report, v.log, v.pace)
		v.guestAgent.Store(g)
		v.onCleanup(func() { v.guestAgent.Store(nil) })
		v.subscribe(g.follow)
	}
	if conn, ok := v.fds.ends[FDVmopAgent]; ok {
		v.login = newLogin(conn, v.cfg.Boot.agentPort(FDVmopAgent), v.monitor, v.report, v.log)
		v.subscribe(v.login.follow)
	}
}

// subscribe lets f follow QEMU's events, from now on, once the agents are followed.
func (v *vm) subscribe(f func(context.Context, <-chan qmp.Event)) {
	events := v.monitor.Subscribe(qmp.EventBuffer)
	v.onCleanup(events.Close)
	v.agents = append(v.agents, func(ctx context.Context) { f(ctx, events.Events()) })
}

// followAgents speaks with the agents until the context ends.
func (v *vm) followAgents(ctx context.Context) {
	for _, follow := range v.agents {
		v.inBackground(func() { follow(ctx) })
	}
}
