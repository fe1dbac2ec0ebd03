package runner

import (
	"log/slog"
	"testing"

	"github.com/cuvee-vm/cuvee/runner/qmp"
)

// Of a client's connections that of the main channel counts, and of several clients the newest.
func TestSpiceClients(t *testing.T) {
	steps := []struct {
		reason      string
		event       string
		host, port  string
		channelType int
		want        string
	}{
		{"another channel is not the main one", "SPICE_INITIALIZED", "192.0.2.1", "1000", 2, ""},
		{"the main channel is the client", "SPICE_INITIALIZED", "192.0.2.1", "1001", 1, "192.0.2.1"},
		{"it may close another channel", "SPICE_DISCONNECTED", "192.0.2.1", "1000", 0, "192.0.2.1"},
		{"another client takes over", "SPICE_INITIALIZED", "2001:db8::1", "1001", 1, "2001:db8::1"},
		{"and the first one is disconnected", "SPICE_DISCONNECTED", "192.0.2.1", "1001", 0, "2001:db8::1"},
		{"the last one goes", "SPICE_DISCONNECTED", "2001:db8::1", "1001", 0, ""},
		{"what is gone cannot go", "SPICE_DISCONNECTED", "2001:db8::1", "1001", 0, ""},
	}
	w := &watcher{report: newReport(slog.New(slog.DiscardHandler), nil)}
	for _, st := range steps {
		client := map[string]any{"host": st.host, "port": st.port}
		if st.channelType > 0 {
			client["channel-type"] = st.channelType
		}
		w.take(qmp.Event{Event: st.event, Data: map[string]any{"client": client}})
		if status, _ := w.report.status.get(); status.ConsoleClient != st.want {
			t.Errorf("%s: client is %q, want %q", st.reason, status.ConsoleClient, st.want)
		}
	}
}
