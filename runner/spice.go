package runner

import (
	"net"

	"github.com/cuvee-vm/cuvee/runner/qmp"
)

// spiceMainChannel is the type of the channel that a SPICE client opens first and keeps (SPICE_CHANNEL_MAIN).
const spiceMainChannel = 1

// spice follows who sees the display. A client has several connections; it is there as long as that of its main channel. The
// newest client counts: SPICE disconnects the one before.
func (w *watcher) spice(e qmp.Event) {
	var data struct {
		Client struct {
			Host        string `json:"host"`
			Port        string `json:"port"`
			ChannelType int    `json:"channel-type"`
		} `json:"client"`
	}
	if !decode(e, &data) {
		return
	}
	client := net.JoinHostPort(data.Client.Host, data.Client.Port)
	host := ""
	switch {
	case e.Event == "SPICE_INITIALIZED" && data.Client.ChannelType == spiceMainChannel:
		w.viewer, host = client, data.Client.Host
		w.report.event(false, "ConsoleConnected", "connection from "+host)
	case e.Event == "SPICE_DISCONNECTED" && client == w.viewer:
		w.viewer = ""
		w.report.event(false, "ConsoleDisconnected", data.Client.Host+" has disconnected")
	default:
		return
	}
	w.report.update(func(s *Status) { s.ConsoleClient = host })
}
