package runner

import (
	"context"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/cuvee-vm/cuvee/runner/vmopagent"
)

// eventBuffer is how many events wait for their reader.
const eventBuffer = 100

// report is where everything about a VM comes together that others want to know. It never waits for them.
type report struct {
	log     *slog.Logger
	observe func(State)
	status  *latest[Status]
	events  chan Event

	// order keeps states and events in order.
	order sync.Mutex
	// ram are the parts of the guest's RAM by where they come from.
	ram map[string]int64
	// paused is the state that a Paused VM was in.
	paused State
	closed bool
}

func newReport(log *slog.Logger, observe func(State)) *report {
	return &report{
		log:     log,
		observe: observe,
		status:  newLatest(Status{DisplayPasswordSerial: -1}),
		events:  make(chan Event, eventBuffer),
		ram:     make(map[string]int64),
	}
}

// begin makes the VM Starting.
func (r *report) begin() {
	r.order.Lock()
	defer r.order.Unlock()
	r.enter(Starting, ReasonStarting, "")
}

// started makes the VM Booting if f has let its guest run. What QEMU tells meanwhile comes after that.
func (r *report) started(booted BootedConfig, f func() error) error {
	r.order.Lock()
	defer r.order.Unlock()
	if err := f(); err != nil {
		return err
	}
	r.update(func(s *Status) { s.Booted = &booted })
	r.change(guestStarted, ReasonStarted, "")
	return nil
}

// happened changes the state by the table of a VM's life.
func (r *report) happened(on occurrence, reason, message string) {
	r.order.Lock()
	defer r.order.Unlock()
	r.change(on, reason, message)
}

// answered makes the VM Booted, unless its guest was reset after the given number of resets: then it was another one that
// has answered.
func (r *report) answered(resets int) {
	r.order.Lock()
	defer r.order.Unlock()
	if status, _ := r.status.get(); status.Resets+status.Reboots == resets {
		r.change(agentAnswered, ReasonBooted, "")
	}
}

// setGuest sets what is known of the guest's agent and from it. It is news only if something has changed.
func (r *report) setGuest(state AgentState, guest *Guest) {
	r.status.update(func(s Status) (Status, bool) {
		changed := s.Agent != state || !reflect.DeepEqual(s.Guest, guest)
		s.Agent, s.Guest = state, guest
		return s, changed
	})
}

func (r *report) change(on occurrence, reason, message string) {
	status, _ := r.status.get()
	if on == guestReset && r.paused == Booted {
		r.paused = Booting
	}
	next, ok := status.State.next(on)
	if !ok {
		return
	}
	switch next {
	case Paused:
		r.paused = status.State
	case before:
		next = r.paused
	}
	r.enter(next, reason, message)
}

func (r *report) enter(s State, reason, message string) {
	r.update(func(status *Status) {
		status.State, status.Reason, status.Message, status.Since = s, reason, message, time.Now()
		if s == Stopped || s == Failed {
			status.PID, status.CPUs, status.RAM, status.IOError, status.Pending = 0, 0, 0, nil, nil
			status.Agent, status.Guest, status.ConsoleClient = AgentAbsent, nil, ""
			status.Imports = slices.DeleteFunc(slices.Clone(status.Imports), func(i Import) bool { return !i.Done() })
			status.Login = vmopagent.State{Wanted: status.Login.Wanted}
		}
	})
	r.log.Info("VM is "+string(s), "reason", reason, "message", message)
	r.send(Event{Warning: s == Failed || s == Paused, Reason: reason, Message: message})
	if r.observe != nil {
		r.observe(s)
	}
}

// update changes the status.
func (r *report) update(f func(*Status)) {
	r.status.update(func(s Status) (Status, bool) {
		f(&s)
		return s, true
	})
}

// imports tells of an import that has begun, has changed, or has ended. The state stays what it is, for another reason; what is no event is
// progress.
func (r *report) imports(i Import, e *Event) {
	r.order.Lock()
	defer r.order.Unlock()
	r.update(func(s *Status) {
		s.Imports = slices.Clone(s.Imports)
		at := slices.IndexFunc(s.Imports, func(o Import) bool { return o.Disk == i.Disk })
		if at < 0 {
			at, s.Imports = len(s.Imports), append(s.Imports, i)
		}
		s.Imports[at] = i
		if e != nil {
			s.Reason, s.Message, s.Since = e.Reason, e.Message, time.Now()
		}
	})
	if e != nil {
		level := slog.LevelInfo
		if e.Warning {
			level = slog.LevelWarn
		}
		r.log.Log(context.Background(), level, e.Message, "reason", e.Reason, "disk", i.Disk)
		r.send(*e)
	}
}

// observed says which generation of its resource the status is about.
func (r *report) observed(generation int64) {
	r.status.update(func(s Status) (Status, bool) {
		changed := s.Generation != generation
		s.Generation = generation
		return s, changed
	})
}

// setRAM sets what the guest has from one source: the balloon, or the virtio-mem device of that id.
func (r *report) setRAM(source string, size int64) {
	r.order.Lock()
	defer r.order.Unlock()
	r.ram[source] = size
	var sum int64
	for _, size := range r.ram {
		sum += size
	}
	r.status.update(func(s Status) (Status, bool) {
		changed := s.RAM != sum
		s.RAM = sum
		return s, changed
	})
}

// ramBase is the source of the RAM that a VM starts with, less what its balloon takes.
const ramBase = ""

// event tells something that is no change of state, and logs it.
func (r *report) event(warning bool, reason, message string) {
	r.order.Lock()
	defer r.order.Unlock()
	level := slog.LevelInfo
	if warning {
		level = slog.LevelWarn
	}
	r.log.Log(context.Background(), level, message, "reason", reason)
	r.send(Event{Warning: warning, Reason: reason, Message: message})
}

// send is for those who hold the lock, so that nobody else takes the room that is made.
func (r *report) send(e Event) {
	if r.closed {
		return
	}
	e.Time = time.Now()
	select {
	case r.events <- e:
		return
	default:
	}
	select {
	case <-r.events:
	default:
	}
	r.events <- e
}

// end is called when nothing is to come any more.
func (r *report) end() {
	r.order.Lock()
	defer r.order.Unlock()
	r.closed = true
	close(r.events)
}
