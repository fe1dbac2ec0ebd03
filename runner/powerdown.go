package runner

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

// quitTimeout is how long QEMU may take to end when it is told to: it writes back what is buffered.
const quitTimeout = 5 * time.Second

// supervise waits for the end of QEMU, or for the request to end it, and calls terminating then.
func (v *vm) supervise(ctx context.Context, terminating func()) (End, error) {
	lost := v.monitor.Done()
	for !v.stopRequested(ctx) {
		select {
		case <-v.qemu.exited:
			return v.ended(EndGuest)
		case <-lost:
			lost = nil
			v.monitorLost(ctx)
		case <-ctx.Done():
		case <-v.opts.Force:
		}
	}
	terminating()
	before, _ := v.report.status.get()
	v.report.happened(stopRequested, ReasonTerminating, "")
	if before.State == Paused && before.IOError == nil {
		v.letGo(context.WithoutCancel(ctx))
	}
	if v.powerdown(context.WithoutCancel(ctx)) {
		return v.ended(EndRequested)
	}
	v.quit()
	if v.lastEvents().guest {
		return EndRequested, nil
	}
	return EndForced, nil
}

// letGo lets a guest run that was stopped for something else than an I/O error, as only then it can shut down.
func (v *vm) letGo(ctx context.Context) {
	if err := v.monitor.Execute(ctx, "cont", nil, nil); err != nil {
		v.log.Warn("cannot let the guest go on", "error", err)
	}
}

// monitorLost reports the loss of the monitor, unless it is only how the end of QEMU shows first.
// There is no way to get it back, and nothing gained by ending a guest that works.
func (v *vm) monitorLost(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, exitDelay)
	defer cancel()
	if !v.qemu.wait(ctx) {
		v.log.Error("lost QEMU's monitor: the guest runs on, but cannot be controlled", "error", v.monitor.Err())
	}
}

// ended tells how QEMU ended that nobody ended: as how, if the guest shut down.
func (v *vm) ended(how End) (End, error) {
	switch down := v.lastEvents(); {
	case down.panicked:
		return EndPanicked, nil
	case down.guest:
		return how, nil
	}
	return "", fmt.Errorf("%w: %w", ErrCrashed, v.qemu.failure())
}

// lastEvents waits until the events from before QEMU's end have been seen, and returns what they told of it.
func (v *vm) lastEvents() shutdown {
	select {
	case <-v.watched:
		return v.watcher.down
	case <-time.After(exitDelay):
		// QEMU's end of the monitor is held open by nobody else.
		return shutdown{}
	}
}

// powerdown asks the guest to shut down, again and again, and reports whether QEMU ended within the powerdown timeout. That
// counts from now on, and may change meanwhile.
func (v *vm) powerdown(ctx context.Context) bool {
	ctx, cancel := v.forcible(ctx)
	defer cancel()
	begin := time.Now()
	press := v.askAgent(ctx)
	for ctx.Err() == nil && v.monitor.Err() == nil {
		cfg, changed := v.newest.get()
		left := time.Until(begin.Add(time.Duration(cfg.Live.PowerdownTimeout) * time.Second))
		if left <= 0 {
			return false
		}
		if !time.Now().Before(press) {
			v.ask(ctx, left)
		}
		select {
		case <-v.qemu.exited:
			return true
		case <-changed:
		case <-ctx.Done():
		case <-v.monitor.Done():
			return v.wentAway()
		case <-time.After(min(left, max(v.pace.powerdown, time.Until(press)))):
		}
	}
	return false
}

// askAgent asks the guest's agent to shut the guest down. It returns when to press the power button: at once if there is no agent that
// would, else when the guest has had some time to follow.
func (v *vm) askAgent(ctx context.Context) time.Time {
	cfg, _ := v.newest.get()
	left := time.Duration(cfg.Live.PowerdownTimeout) * time.Second
	if g := v.guestAgent.Load(); g != nil && g.shutDown(ctx, left) {
		return time.Now().Add(v.pace.agentShutdown)
	}
	return time.Now()
}

// ask presses the power button of the guest.
func (v *vm) ask(ctx context.Context, left time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	if err := v.monitor.Execute(ctx, "system_powerdown", nil, nil); err != nil {
		v.log.Debug("cannot ask the guest to shut down", "error", err)
	}
}

// wentAway says whether the loss of the monitor was the end of QEMU.
func (v *vm) wentAway() bool {
	ctx, cancel := context.WithTimeout(context.Background(), exitDelay)
	defer cancel()
	return v.qemu.wait(ctx)
}

// quit ends QEMU without the guest: by QMP, by signal if there is no monitor, and by force if it does not go.
func (v *vm) quit() {
	v.log.Warn("guest did not shut down, ending QEMU")
	ctx, cancel := context.WithTimeout(context.Background(), quitTimeout)
	defer cancel()
	if err := v.monitor.Execute(ctx, "quit", nil, nil); err != nil {
		_ = v.qemu.cmd.Process.Signal(syscall.SIGTERM)
	}
	if !v.qemu.wait(ctx) {
		v.log.Warn("QEMU does not end, killing it")
		v.kill(v.qemu)
	}
}
