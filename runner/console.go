package runner

import (
	"context"
	"net"
	"time"

	"github.com/cuvee-vm/cuvee/runner/serial"
)

// consoleFlush is how long ConsoleOut may take for the rest of the output at the end.
const consoleFlush = time.Second

// attachConsole connects the serial port, and ConsoleIn and ConsoleOut with it. The function that is returned ends that, after
// what is left of the output has been handed on.
func (v *vm) attachConsole(conn net.Conn) func() {
	port := v.opts.Serial
	ctx, cancel := context.WithCancel(context.Background())
	shown := v.showConsole(ctx, port)
	detach := port.Attach(conn)
	if v.opts.ConsoleIn != nil {
		go v.typeConsole(ctx, port)
	}
	return func() {
		// Everything that QEMU wrote can still be read, up to its end of the connection.
		detach()
		shown()
		cancel()
	}
}

// showConsole copies the output from now on to ConsoleOut. A reader that takes none any more is no reason to end.
func (v *vm) showConsole(ctx context.Context, port *serial.Port) (finish func()) {
	if v.opts.ConsoleOut == nil {
		return func() {}
	}
	_, end := port.Range()
	reader := port.Reader(end)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = reader.CopyTo(ctx, v.opts.ConsoleOut)
	}()
	return func() {
		reader.Close()
		select {
		case <-done:
		case <-time.After(consoleFlush):
		}
	}
}

// typeConsole types what ConsoleIn gives. It takes the port over with the first key, and with the first one after another writer did.
func (v *vm) typeConsole(ctx context.Context, port *serial.Port) {
	var writer *serial.Writer
	defer func() { writer.Close() }()
	b := make([]byte, 4096)
	for {
		n, err := v.opts.ConsoleIn.Read(b)
		if ctx.Err() != nil {
			return
		}
		if n > 0 {
			if writer.Gone() {
				writer = v.takeConsole(ctx, port)
			}
			// What was typed into a take-over is lost, and that it happened is told.
			_ = writer.Write(ctx, b[:n])
		}
		if err != nil {
			return
		}
	}
}

// takeConsole takes the port over, and tells when another writer has done so.
func (v *vm) takeConsole(ctx context.Context, port *serial.Port) *serial.Writer {
	writer := port.TakeOver()
	go func() {
		select {
		case <-writer.TakenOver():
			v.log.Warn("another one types at the console now; the next key here takes it back")
		case <-ctx.Done():
		}
	}()
	return writer
}
