package runner

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/cuvee-vm/cuvee/runner/qmp"
)

// Hurry makes the VM look after things more often, and retry sooner. It has to be called before Run.
func (m *VM) Hurry() {
	m.vm.pace = pace{
		files: 20 * time.Millisecond, disks: 20 * time.Millisecond,
		retryMin: 50 * time.Millisecond, retryMax: 200 * time.Millisecond,
		settle: 300 * time.Millisecond, powerdown: 50 * time.Millisecond, repeat: time.Minute,
		agent: 100 * time.Millisecond, agentMost: 500 * time.Millisecond, agentLeast: 20 * time.Millisecond, agentShutdown: time.Minute,
	}
}

// Execute runs a QMP command on a running VM.
func (m *VM) Execute(ctx context.Context, command string, args, result any) error {
	g := m.vm.gauge.Load()
	if g == nil {
		return ErrNotRunning
	}
	return g.monitor.Execute(ctx, command, args, result)
}

// Subscribe returns QEMU's events, of a running VM.
func (m *VM) Subscribe() <-chan qmp.Event { return m.vm.gauge.Load().monitor.Subscribe(1000).Events() }

// AgentAnswered is what the guest agent's client will call.
func (m *VM) AgentAnswered() { m.vm.report.happened(agentAnswered, ReasonBooted, "") }

// FollowFast is FollowConfig with a short interval.
func FollowFast(ctx context.Context, path string) (*Config, <-chan *Config, error) {
	return followConfig(ctx, path, slog.New(slog.DiscardHandler), 5*time.Millisecond)
}

// CorpusConfig reads a config of the corpus.
func CorpusConfig(t *testing.T, name, dir string) *Config {
	t.Helper()
	return readConfig(t, name, dir)
}

// WriteInputs makes the files that the full config refers to.
func WriteInputs(t *testing.T, dir string) {
	t.Helper()
	writeInputs(t, dir)
}

// LifeRow is a row of the table of a VM's life.
type LifeRow struct {
	From []State
	On   string
	To   State
	Does string
}

// Life returns the table of a VM's life.
func Life() []LifeRow {
	var rows []LifeRow
	for _, t := range life {
		rows = append(rows, LifeRow{From: t.from, On: string(t.on), To: t.to, Does: t.does})
	}
	return rows
}
