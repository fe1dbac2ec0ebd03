package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/coder/websocket"

	"github.com/cuvee-vm/cuvee/runner/consoleclient"
)

// attachment is a terminal, or a pipe, at a VM's serial port.
type attachment struct {
	place    place
	readOnly bool
	// wait says that a VM that does not run yet is waited for.
	wait bool
	tail int64
	// detach is the control character that ends it on a terminal, or noKey.
	detach int
	// interactive says that there is a terminal: keys have a meaning, and the VM's restart is waited for.
	interactive bool
	// setUp prepares the terminal, once there is something to show.
	setUp    func()
	keys     <-chan []byte
	out, err io.Writer

	// from is where the output went on when the connection was lost.
	from *consoleclient.Place
	// watching says that somebody else types.
	watching bool
}

// errDetached ends an attachment as its user wants it.
var errDetached = errors.New("detached")

// errSignal ends one that its user has no time for.
var errSignal = errors.New("ended by a signal")

// errTakenOver ends one that nobody can be asked about.
var errTakenOver = errors.New("another console has taken over; the rest of the input was not typed")

// again is how long a VM that has ended is left alone before it is looked for again.
const again = time.Second

// run shows the console until its user detaches or, without a terminal, until the VM ends.
func (a *attachment) run(ctx context.Context) error {
	s, err := a.first(ctx)
	if err != nil {
		return err
	}
	if a.setUp != nil {
		a.setUp()
	}
	a.tell("console of " + a.place.String() + a.hint())
	for {
		err := a.use(ctx, s)
		switch {
		case errors.Is(err, errDetached):
			return nil
		case ctx.Err() != nil:
			return errSignal
		case !ended(err):
			return err
		case !a.interactive:
			return nil
		}
		a.tell("the VM has ended; waiting for it to start again" + a.hint())
		if s, err = a.reconnect(ctx); errors.Is(err, errDetached) {
			return nil
		} else if err != nil {
			return err
		}
		a.tell("connected again")
	}
}

func (a *attachment) hint() string {
	if a.detach == noKey {
		return ""
	}
	return fmt.Sprintf(" (%s detaches)", keyName(a.detach))
}

// tell tells the user something that is not the guest's.
func (a *attachment) tell(text string) {
	if a.interactive {
		fmt.Fprintf(a.err, "\r\n[cuvee: %s]\r\n", text)
	}
}

func (a *attachment) connect(ctx context.Context) (*consoleclient.Serial, error) {
	e, err := a.place.console(ctx)
	if err != nil {
		return nil, err
	}
	s, err := e.Serial(ctx, consoleclient.SerialOptions{Write: !a.readOnly, From: a.from, Tail: a.tail})
	if err == nil {
		a.watching = false
	}
	return s, err
}

// first connects to a VM that may have to be waited for.
func (a *attachment) first(ctx context.Context) (*consoleclient.Serial, error) {
	tick := time.NewTicker(again)
	defer tick.Stop()
	said := ""
	for {
		s, err := a.connect(ctx)
		if err == nil || !a.wait || !comes(err) {
			return s, err
		}
		if why := err.Error(); why != said {
			fmt.Fprintf(a.err, "waiting: %s\n", why)
			said = why
		}
		select {
		case <-ctx.Done():
			return nil, errSignal
		case <-tick.C:
		}
	}
}

// comes says whether an error is that of a VM that does not run, or whose runner does not listen yet.
func comes(err error) bool {
	var port portError
	return errors.Is(err, errNotRunning) || errors.Is(err, errNoVM) || errors.Is(err, errUnreachable) || errors.As(err, &port)
}

// ended says whether an error is the end of the VM, and not one that another try would not help with.
func ended(err error) bool {
	var status *consoleclient.StatusError
	if errors.As(err, &status) || errors.Is(err, errTakenOver) || errors.Is(err, errOutput) {
		return false
	}
	code := websocket.CloseStatus(err)
	return code == -1 || code == websocket.StatusGoingAway
}

// reconnect waits until the VM is there again.
func (a *attachment) reconnect(ctx context.Context) (*consoleclient.Serial, error) {
	tick := time.NewTicker(again)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case keys, ok := <-a.keys:
			if !ok || a.detaches(keys) >= 0 {
				return nil, errDetached
			}
		case <-tick.C:
			s, err := a.connect(ctx)
			if err == nil {
				return s, nil
			}
		}
	}
}

// detaches is where the user detaches, -1 if not. Without a terminal every byte is the guest's.
func (a *attachment) detaches(keys []byte) int {
	if !a.interactive {
		return -1
	}
	const ctrlC = 3
	if at := bytes.IndexByte(keys, ctrlC); at >= 0 && a.readOnly {
		return at
	}
	if a.detach == noKey {
		return -1
	}
	return bytes.IndexByte(keys, byte(a.detach))
}

// use passes input and output on until one of them ends.
func (a *attachment) use(ctx context.Context, s *consoleclient.Serial) error {
	ctx, cancel := context.WithCancel(ctx)
	defer func() { _ = s.Close() }()
	messages, failed, over := make(chan consoleclient.Message), make(chan error, 1), make(chan struct{})
	go func() {
		defer close(over)
		failed <- receive(ctx, s, messages)
	}()
	defer func() {
		cancel()
		<-over
		place := s.Place()
		a.from = &place
	}()
	keys := a.keys
	for {
		select {
		case m := <-messages:
			if err := a.show(m); err != nil {
				return err
			}
		case err := <-failed:
			return err
		case typed, ok := <-keys:
			if !ok {
				if a.interactive {
					return errDetached
				}
				keys = nil
				continue
			}
			if err := a.typed(ctx, s, typed); err != nil {
				return err
			}
		}
	}
}

// receive hands the messages on until the connection ends.
func receive(ctx context.Context, s *consoleclient.Serial, messages chan<- consoleclient.Message) error {
	for {
		m, err := s.Read(ctx)
		if err != nil {
			return err
		}
		select {
		case messages <- m:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// errOutput says that nobody reads what the guest writes.
var errOutput = errors.New("write the output")

// show shows output, and tells what the server tells.
func (a *attachment) show(m consoleclient.Message) error {
	switch m.Notice {
	case "":
		if _, err := a.out.Write(m.Output); err != nil {
			return fmt.Errorf("%w: %w", errOutput, err)
		}
	case consoleclient.NoticeTakenOver:
		a.watching = true
		a.tell("another console types now; this one only shows. Enter takes over again" + a.hint())
	case consoleclient.NoticeWriter:
		if a.watching {
			a.watching = false
			a.tell("this console types again")
		}
	case consoleclient.NoticeLost:
		a.tell(fmt.Sprintf("%d bytes of output are lost", m.Bytes))
	case consoleclient.NoticeNotTaken:
		a.tell(fmt.Sprintf("the guest did not take what was typed, %d bytes are lost", m.Bytes))
	}
	return nil
}

// typed passes on what is typed, up to the detach key.
func (a *attachment) typed(ctx context.Context, s *consoleclient.Serial, keys []byte) error {
	at := a.detaches(keys)
	if at >= 0 {
		keys = keys[:at]
	}
	err := a.pass(ctx, s, keys)
	if err == nil && at >= 0 {
		return errDetached
	}
	return err
}

func (a *attachment) pass(ctx context.Context, s *consoleclient.Serial, keys []byte) error {
	switch {
	case len(keys) == 0 || a.readOnly:
		return nil
	case !a.watching:
		return s.Write(ctx, keys)
	case !a.interactive:
		return errTakenOver
	case bytes.ContainsAny(keys, "\r\n"):
		return s.TakeOver(ctx)
	}
	return nil
}

// keyName is how a user writes a control character.
func keyName(key int) string {
	return "Ctrl-" + string(rune(key|0x40))
}
