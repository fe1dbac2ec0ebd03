package consoleserver

import (
	"context"
	"testing"

	"github.com/coder/websocket"
)

// FuzzControl has a client say anything. It is cut off, or it goes on; others do not notice.
func FuzzControl(f *testing.F) {
	for _, text := range []string{
		"", "null", "{}", "[]", "7", `"takeOver"`, "{", `{"type":"takeOver"}`, `{"type":"takeOver"}{"type":"takeOver"}`, `{"type":7}`, `{"type":"lost","bytes":-1}`,
		`{"type":"start","position":18446744073709551616}`, `{"type":"resize","columns":-1,"rows":1e99}`, `{"type":"\ud800"}`, `{"TYPE":"takeOver"}`, "\x00", "\xff",
	} {
		f.Add(text, true)
		f.Add(text, false)
	}
	p := newPod(f, DefaultLimits)
	good := p.dial(f, "?mode=write")
	next(f, good, typeWriter)
	f.Fuzz(func(t *testing.T, text string, write bool) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		query := ""
		if write {
			query = "?mode=write"
		}
		ws := p.dial(t, query)
		next(t, ws, typeStart)
		if err := ws.Write(ctx, websocket.MessageText, []byte(text)); err != nil {
			t.Fatal(err)
		}
		go func() {
			for _, _, err := ws.Read(ctx); err == nil; {
				_, _, err = ws.Read(ctx)
			}
		}()
		// Whatever it was, it is over with the answer to this, or with the connection.
		_ = ws.Ping(ctx)
		_ = ws.CloseNow()
		send(t, good, websocket.MessageText, `{"type":"takeOver"}`)
		if _, err := p.guest.Write([]byte("still here")); err != nil {
			t.Fatal(err)
		}
		next(t, good, "still here")
		send(t, good, websocket.MessageBinary, "typed")
		p.hears(t, "typed")
	})
}
