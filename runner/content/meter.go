package content

import "time"

// reportEvery is how often progress is told.
const reportEvery = time.Second

// meter counts, and tells how far it is now and then.
type meter struct {
	report func(Progress)
	now    Progress
	// last is when it was told last, lastBytes what had been counted.
	last      time.Time
	lastBytes int64
}

func newMeter(report func(Progress)) *meter {
	if report == nil {
		report = func(Progress) {}
	}
	return &meter{report: report}
}

// begin begins a phase.
func (m *meter) begin(p Phase, total int64) {
	m.now = Progress{Phase: p, Total: max(total, 0)}
	m.last, m.lastBytes = time.Now(), 0
	m.report(m.now)
}

func (m *meter) add(n int64) { m.set(m.now.Bytes + n) }

func (m *meter) set(bytes int64) {
	m.now.Bytes = bytes
	passed := time.Since(m.last)
	if passed < reportEvery {
		return
	}
	m.now.Rate = int64(float64(bytes-m.lastBytes) / passed.Seconds())
	m.last, m.lastBytes = time.Now(), bytes
	m.report(m.now)
}
