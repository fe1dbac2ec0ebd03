package qmp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// Execute runs a command and waits for its reply, until the context ends or, if it has no deadline, for
// DefaultTimeout. Arguments that are nil are left out; a reply that is not nil gets what the command returns.
// A refusal by QEMU is an *Error. Errors name the command, but never its arguments, which may hold secrets.
func (m *Monitor) Execute(ctx context.Context, command string, args, result any) error {
	return m.ExecuteWithFile(ctx, command, args, nil, result)
}

// ExecuteWithFile is Execute for commands that take a file along, such as getfd, which takes a monitor on a Unix socket. The file stays the caller's; QEMU has it
// when the command has succeeded. The file must stay open until then.
func (m *Monitor) ExecuteWithFile(ctx context.Context, command string, args any, file *os.File, result any) error {
	ctx, cancel := withDefaultTimeout(ctx)
	defer cancel()
	cmd := map[string]any{"execute": command}
	if args != nil {
		cmd["arguments"] = args
	}
	raw, err := m.roundTrip(ctx, cmd, file)
	if err != nil {
		return fmt.Errorf("QMP %s: %w", command, err)
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(raw, result); err != nil {
		return fmt.Errorf("QMP %s: read reply: %w", command, err)
	}
	return nil
}

// Run runs a command given as JSON, within DefaultTimeout, and returns the reply as QMP words it,
// {"return": …}. An id of the caller's is replaced. It is there for go-qemu's qmp.Monitor; prefer Execute.
func (m *Monitor) Run(command []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), DefaultTimeout)
	defer cancel()
	var cmd map[string]any
	if err := json.Unmarshal(command, &cmd); err != nil {
		return nil, errors.New("QMP: command is no JSON object")
	}
	raw, err := m.roundTrip(ctx, cmd, nil)
	if err != nil {
		return nil, fmt.Errorf("QMP %v: %w", cmd["execute"], err)
	}
	return json.Marshal(map[string]json.RawMessage{"return": raw})
}

// roundTrip gives the command an id, sends it, and waits for the reply with that id.
func (m *Monitor) roundTrip(ctx context.Context, cmd map[string]any, file *os.File) (json.RawMessage, error) {
	id, answer, err := m.expect()
	if err != nil {
		return nil, err
	}
	defer m.forget(id)
	cmd["id"] = id
	b, err := json.Marshal(cmd)
	if err != nil {
		return nil, fmt.Errorf("write arguments: %w", err)
	}
	select {
	case m.write <- outgoing{text: append(b, '\n'), file: file}:
	case <-m.done:
		return nil, m.Err()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	begin := time.Now()
	select {
	case r := <-answer:
		m.latency.answered(time.Since(begin))
		return r.value()
	case <-m.done:
		return lastReply(answer, m.Err())
	case <-ctx.Done():
		m.latency.unanswered()
		return nil, context.Cause(ctx)
	}
}

// lastReply returns a reply that came right before the connection ended, as the one to "quit" does.
func lastReply(answer <-chan reply, lost error) (json.RawMessage, error) {
	select {
	case r := <-answer:
		return r.value()
	default:
		return nil, lost
	}
}

func (r reply) value() (json.RawMessage, error) {
	if r.err != nil {
		return nil, r.err
	}
	return r.result, nil
}

func (m *Monitor) expect() (uint64, <-chan reply, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return 0, nil, m.err
	}
	if !m.connected {
		return 0, nil, ErrNotConnected
	}
	m.lastID++
	answer := make(chan reply, 1)
	m.pending[m.lastID] = answer
	return m.lastID, answer, nil
}

func (m *Monitor) forget(id uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pending, id)
}

// isReset says whether the error is how the end of the other process shows on a socket.
func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
