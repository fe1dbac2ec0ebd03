package runner

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/cuvee-vm/cuvee/runner/qmp"
)

// watcher follows what QEMU tells unasked about the guest.
type watcher struct {
	report *report
	pace   pace
	// cause is what QEMU said right before it stopped the guest.
	cause stopCause
	// over is the time at which an I/O error is over, if the guest still runs then.
	over <-chan time.Time
	// told are the errors of disks that were told, and when.
	told map[IOError]time.Time
	// viewer is the client that sees the display, as host:port; empty if there is none.
	viewer string
	// down is set by the guest's shutdown.
	down shutdown
}

// stopCause is why QEMU stops a guest.
type stopCause struct {
	reason, message string
	ioError         *IOError
}

// shutdown is the end of a guest.
type shutdown struct {
	// guest says that the guest shut down, by itself or because it was asked to.
	guest bool
	// panicked says that the guest's kernel failed.
	panicked bool
	// seen is set by any end, also by "quit".
	seen bool
}

// follow follows the events until the monitor ends.
func (w *watcher) follow(events <-chan qmp.Event) {
	for {
		select {
		case e, ok := <-events:
			if !ok {
				return
			}
			w.take(e)
		case <-w.over:
			w.over = nil
			w.report.update(func(s *Status) { s.IOError = nil })
			w.report.happened(guestResumed, ReasonResumed, "the disk takes data again")
		}
	}
}

func (w *watcher) take(e qmp.Event) {
	switch e.Event {
	case "SHUTDOWN":
		w.shutdown(e)
	case "STOP":
		w.stopped()
	case "RESUME":
		w.resumed()
	case "RESET":
		w.reset(e)
	case "BLOCK_IO_ERROR":
		w.ioError(e)
	case "GUEST_PANICKED":
		w.guestError(e, ReasonPanicked, "the guest's kernel panicked")
	case "WATCHDOG":
		w.guestError(e, ReasonWatchdog, "the guest's watchdog has expired")
	case "BALLOON_CHANGE":
		var data struct {
			Actual int64 `json:"actual"`
		}
		if decode(e, &data) {
			w.report.setRAM(ramBase, data.Actual)
		}
	case "SPICE_INITIALIZED", "SPICE_DISCONNECTED":
		w.spice(e)
	case "DEVICE_TRAY_MOVED":
		var data struct {
			ID   string `json:"id"`
			Open bool   `json:"tray-open"`
		}
		if decode(e, &data) {
			w.report.log.Info("tray moved", "drive", data.ID, "open", data.Open)
		}
	}
}

func (w *watcher) shutdown(e qmp.Event) {
	var data struct {
		Guest  bool   `json:"guest"`
		Reason string `json:"reason"`
	}
	if !decode(e, &data) {
		return
	}
	w.down.seen = true
	switch {
	case data.Reason == "guest-panic":
		w.down.panicked = true
	case data.Guest:
		w.down.guest = true
	}
	w.report.log.Debug("QEMU ends", "reason", data.Reason)
}

// stopped is told by the stop of the guest. The end of QEMU is none.
func (w *watcher) stopped() {
	cause := w.cause
	w.cause = stopCause{}
	if w.down.seen {
		return
	}
	if cause.reason == "" {
		cause.reason = ReasonPaused
	}
	w.over = nil
	w.report.update(func(s *Status) { s.IOError = cause.ioError })
	w.report.happened(guestStopped, cause.reason, cause.message)
}

// resumed is told when the guest runs again. After an I/O error it may be stopped again at once.
func (w *watcher) resumed() {
	if status, _ := w.report.status.get(); status.IOError != nil {
		w.over = time.After(w.pace.settle)
		return
	}
	w.report.happened(guestResumed, ReasonResumed, "")
}

func (w *watcher) reset(e qmp.Event) {
	var data struct {
		Guest  bool   `json:"guest"`
		Reason string `json:"reason"`
	}
	if !decode(e, &data) {
		return
	}
	message := "reset"
	if data.Guest {
		message = "the guest reboots"
	}
	w.report.update(func(s *Status) {
		if data.Guest {
			s.Reboots++
		} else {
			s.Resets++
		}
	})
	w.report.event(false, ReasonReset, message)
	w.report.happened(guestReset, ReasonReset, message)
}

func (w *watcher) ioError(e qmp.Event) {
	var data struct {
		Device    string `json:"device"`
		Node      string `json:"node-name"`
		Path      string `json:"qom-path"`
		Operation string `json:"operation"`
		Action    string `json:"action"`
		NoSpace   bool   `json:"nospace"`
		Reason    string `json:"reason"`
	}
	if !decode(e, &data) {
		return
	}
	fault := IOError{Device: data.Device, Operation: data.Operation, NoSpace: data.NoSpace, Reason: data.Reason}
	// QEMU of before 9.2 has no path, and -blockdev no device. Disks' nodes have their device's id.
	switch {
	case data.Path != "":
		fault.Device = deviceID(data.Path)
	case fault.Device == "":
		fault.Device = data.Node
	}
	message := fmt.Sprintf("disk %s: %s: %s", fault.Device, fault.Operation, fault.Reason)
	if data.Action == "stop" {
		w.cause = stopCause{reason: ReasonIOError, message: message, ioError: &fault}
		return
	}
	if last, ok := w.told[fault]; ok && time.Since(last) < w.pace.repeat {
		return
	}
	if w.told == nil {
		w.told = make(map[IOError]time.Time)
	}
	w.told[fault] = time.Now()
	w.report.event(true, ReasonIOError, message)
}

func (w *watcher) guestError(e qmp.Event, reason, message string) {
	var data struct {
		Action string `json:"action"`
	}
	decode(e, &data)
	if data.Action == "pause" {
		w.cause = stopCause{reason: reason, message: message}
	}
	if data.Action != "" {
		message += ", action: " + data.Action
	}
	w.report.update(func(s *Status) { s.GuestError = message })
	w.report.event(true, reason, message)
}

// deviceID returns the id of a device from its path in QEMU's object tree.
func deviceID(path string) string {
	id, _, _ := strings.Cut(strings.TrimPrefix(path, peripheral), "/")
	if id == "" {
		return path
	}
	return id
}

// peripheral is where devices with an id are in QEMU's object tree.
const peripheral = "/machine/peripheral/"

// decode reads an event's data, and reports whether it could. Data of another shape is a newer QEMU's.
func decode(e qmp.Event, data any) bool {
	b, err := json.Marshal(e.Data)
	return err == nil && json.Unmarshal(b, data) == nil
}
