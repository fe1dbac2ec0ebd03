package runner

import (
	"context"

	"github.com/cuvee-vm/cuvee/runner/qmp"
)

// reset is the wish for a reset. One that was there at the start is done by the start, so that none is done twice; any
// other text is another wish, so that none is lost.
type reset struct {
	monitor *qmp.Monitor
	report  *report
	done    string
}

func (r *reset) apply(ctx context.Context, live *Live) error {
	if live.Reset != "" && live.Reset != r.done {
		if err := r.monitor.Execute(ctx, "system_reset", nil, nil); err != nil {
			return err
		}
		r.done = live.Reset
	}
	if status, _ := r.report.status.get(); status.Reset != r.done {
		r.report.update(func(s *Status) { s.Reset = r.done })
	}
	return nil
}

func (r *reset) wakes(qmp.Event) bool { return false }
