package guestagent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/netip"
	"time"
)

// The commands that run programs, read and write files, or set passwords in a guest are left out on purpose.

// Ping finds out whether the agent answers (guest-ping).
func (c *Client) Ping(ctx context.Context) error {
	return c.execute(ctx, "guest-ping", nil)
}

// Version returns the version of the agent (guest-info).
func (c *Client) Version(ctx context.Context) (string, error) {
	var info struct {
		Version string `json:"version"`
	}
	err := c.execute(ctx, "guest-info", &info)
	return text(info.Version), err
}

// Hostname returns the guest's name (guest-get-host-name).
func (c *Client) Hostname(ctx context.Context) (string, error) {
	var name struct {
		HostName string `json:"host-name"`
	}
	err := c.execute(ctx, "guest-get-host-name", &name)
	return text(name.HostName), err
}

// OS is a guest's operating system (GuestOSInfo). What the guest does not say is empty. The names are those of os-release(5), but
// for the kernel's and the machine, which are those of uname(2).
type OS struct {
	ID            string `json:"id,omitempty"`
	Name          string `json:"name,omitempty"`
	PrettyName    string `json:"pretty-name,omitempty"`
	Version       string `json:"version,omitempty"`
	VersionID     string `json:"version-id,omitempty"`
	Variant       string `json:"variant,omitempty"`
	VariantID     string `json:"variant-id,omitempty"`
	KernelRelease string `json:"kernel-release,omitempty"`
	KernelVersion string `json:"kernel-version,omitempty"`
	Machine       string `json:"machine,omitempty"`
}

// OS returns what the guest runs (guest-get-osinfo).
func (c *Client) OS(ctx context.Context) (OS, error) {
	var o OS
	err := c.execute(ctx, "guest-get-osinfo", &o)
	for _, s := range []*string{
		&o.ID, &o.Name, &o.PrettyName, &o.Version, &o.VersionID, &o.Variant, &o.VariantID,
		&o.KernelRelease, &o.KernelVersion, &o.Machine,
	} {
		*s = text(*s)
	}
	return o, err
}

// The numbers of interfaces, and of addresses of each, that are taken from a guest. A guest that runs containers may have more.
const (
	MaxInterfaces = 32
	MaxAddresses  = 16
)

// Interface is a network interface of a guest.
type Interface struct {
	// Name is the guest's own, as eth0.
	Name string
	// MAC is the hardware address, in lower case with colons; empty if there is none.
	MAC string
	// Addresses are the IP addresses, in the guest's order.
	Addresses []string
}

// Interfaces returns the network interfaces, in the guest's order, without its loopback (guest-network-get-interfaces).
func (c *Client) Interfaces(ctx context.Context) ([]Interface, error) {
	var raw json.RawMessage
	if err := c.execute(ctx, "guest-network-get-interfaces", &raw); err != nil {
		return nil, err
	}
	var all []Interface
	firstOf(raw, func(element json.RawMessage) bool {
		if i, ok := newInterface(element); ok {
			all = append(all, i)
		}
		return len(all) < MaxInterfaces
	})
	return all, nil
}

// newInterface reads an interface, and tells whether it is one to name.
func newInterface(element json.RawMessage) (Interface, bool) {
	var g struct {
		Name      string          `json:"name"`
		MAC       string          `json:"hardware-address"`
		Addresses json.RawMessage `json:"ip-addresses"`
	}
	if json.Unmarshal(element, &g) != nil {
		return Interface{}, false
	}
	i := Interface{Name: text(g.Name)}
	if mac, err := net.ParseMAC(g.MAC); err == nil && len(mac) == 6 {
		i.MAC = mac.String()
	}
	loopback := false
	firstOf(g.Addresses, func(element json.RawMessage) bool {
		var a struct {
			Address string `json:"ip-address"`
		}
		if json.Unmarshal(element, &a) != nil {
			return true
		}
		// The zone of an address is of no use outside the guest.
		if ip, err := netip.ParseAddr(a.Address); err == nil {
			loopback = loopback || ip.IsLoopback()
			i.Addresses = append(i.Addresses, ip.WithZone("").String())
		}
		return len(i.Addresses) < MaxAddresses
	})
	return i, i.Name != "" && !loopback
}

// firstOf calls f with the elements of an array, one after the other, as long as it wants more. A whole array in memory is many
// times as large as its text.
func firstOf(array json.RawMessage, f func(json.RawMessage) bool) {
	dec := json.NewDecoder(bytes.NewReader(array))
	if open, err := dec.Token(); err != nil || open != json.Delim('[') {
		return
	}
	for dec.More() {
		var element json.RawMessage
		if dec.Decode(&element) != nil || !f(element) {
			return
		}
	}
}

// refusalTime is how long the agent has to refuse what it does not answer otherwise.
const refusalTime = time.Second

// Shutdown asks the guest to power off (guest-shutdown). It returns nil when the agent has taken the wish, to which it gives no
// answer; that the guest follows it is not sure.
func (c *Client) Shutdown(ctx context.Context) error {
	return c.exclusive(ctx, func() error {
		if err := c.send("guest-shutdown", map[string]string{"mode": "powerdown"}); err != nil {
			return err
		}
		_ = c.conn.SetReadDeadline(time.Now().Add(refusalTime))
		_, err := c.reply()
		var refused *Error
		switch {
		case errors.As(err, &refused):
			return err
		case err == nil, errors.Is(err, io.EOF), errors.Is(err, ErrGarbled):
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return nil
	})
}
