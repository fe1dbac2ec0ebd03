package qmp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cuvee-vm/cuvee/runner/qmp"
)

func TestConnect(t *testing.T) {
	m, _ := connected(t)
	if got := m.Version().String(); got != "7.2.22" {
		t.Errorf("version is %s, want 7.2.22", got)
	}
}

func TestConnectEnds(t *testing.T) {
	cases := map[string]struct {
		reason string
		serve  func(*server)
		want   error
	}{
		"NoGreeting": {
			reason: "A server that says nothing is given up at the deadline.",
			serve:  func(*server) {},
			want:   context.DeadlineExceeded,
		},
		"Lost": {
			reason: "A QEMU that ends before its greeting is noticed.",
			serve:  func(s *server) { s.conn.Close() },
			want:   io.EOF,
		},
		"NoReply": {
			reason: "The negotiation has the same deadline.",
			serve:  func(s *server) { s.send(greeting) },
			want:   context.DeadlineExceeded,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m, s := newServer(t)
			tc.serve(s)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if err := m.ConnectContext(ctx); !errors.Is(err, tc.want) {
				t.Errorf("%s\nerror is %v, want %v", tc.reason, err, tc.want)
			}
		})
	}
}

func TestExecuteBeforeConnect(t *testing.T) {
	m, _ := newServer(t)
	if err := m.Execute(t.Context(), "stop", nil, nil); !errors.Is(err, qmp.ErrNotConnected) {
		t.Errorf("error is %v, want ErrNotConnected", err)
	}
}

// Replies in another order than the commands find their callers.
func TestOutOfOrder(t *testing.T) {
	m, s := connected(t)
	const n = 50
	go func() {
		var got []command
		for range n {
			got = append(got, s.receive())
		}
		for i := range got {
			c := got[n-1-i]
			s.reply(c, fmt.Sprintf(`%v`, c.Arguments["n"]))
		}
	}()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			var got int
			if err := m.Execute(t.Context(), "echo", map[string]int{"n": i}, &got); err != nil {
				t.Error(err)
			}
			if got != i {
				t.Errorf("reply is %d, want %d", got, i)
			}
		})
	}
	wg.Wait()
}

// A reply that comes after its deadline does no harm to the command after it.
func TestLateReply(t *testing.T) {
	m, s := connected(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := m.Execute(ctx, "slow", nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("error is %v, want the deadline", err)
	}
	go func() {
		slow := s.receive()
		next := s.receive()
		s.reply(slow, `"slow"`)
		s.reply(next, `"next"`)
	}()
	var got string
	if err := m.Execute(t.Context(), "next", nil, &got); err != nil {
		t.Fatal(err)
	}
	if got != "next" {
		t.Errorf("reply is %q, want next", got)
	}
}

// Replies may be huge, and together more than the limit of one.
func TestHugeReplies(t *testing.T) {
	m, s := connected(t)
	sizes := append([]int{64 << 10, 300 << 10, 8 << 20}, slices.Repeat([]int{8 << 20}, 2)...)
	for _, size := range sizes {
		want := strings.Repeat("x", size)
		go func() { s.reply(s.receive(), `"`+want+`"`) }()
		var got string
		if err := m.Execute(t.Context(), "huge", nil, &got); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("reply has %d bytes, want %d", len(got), size)
		}
	}
}

// What does not end is not read for ever.
func TestEndlessReply(t *testing.T) {
	m, s := connected(t)
	go func() {
		s.receive()
		chunk := bytes.Repeat([]byte("x"), 1<<20)
		_, _ = io.WriteString(s.conn, `{"return": "`)
		for {
			if _, err := s.conn.Write(chunk); err != nil {
				return
			}
		}
	}()
	err := m.Execute(t.Context(), "endless", nil, nil)
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error is %v, want one about the size", err)
	}
	<-m.Done()
}

func TestErrorClass(t *testing.T) {
	m, s := connected(t)
	go func() { s.refuse(s.receive(), "DeviceNotFound", "Device 'x' not found") }()
	err := m.Execute(t.Context(), "device_del", map[string]string{"id": "x"}, nil)
	var got *qmp.Error
	if !errors.As(err, &got) {
		t.Fatalf("error is %v, want a *qmp.Error", err)
	}
	want := &qmp.Error{Class: qmp.ClassDeviceNotFound, Desc: "Device 'x' not found"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
	if want := "QMP device_del: Device 'x' not found (DeviceNotFound)"; err.Error() != want {
		t.Errorf("text is %q, want %q", err, want)
	}
}

// Errors name no arguments, as these may be secrets.
func TestErrorsKeepSecrets(t *testing.T) {
	m, s := connected(t)
	go func() { s.reply(s.receive(), `{"password": "hunter2"}`) }()
	var got []int
	err := m.Execute(t.Context(), "set_password", map[string]string{"password": "hunter2"}, &got)
	if err == nil {
		t.Fatal("a reply of another type was taken")
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error has the secret: %v", err)
	}
	if _, err := m.Run([]byte(`{"execute": "set_password", "arguments": {"password": "hunter2"`)); err == nil {
		t.Error("broken JSON was taken")
	} else if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error has the secret: %v", err)
	}
	go func() { s.refuse(s.receive(), qmp.ClassGeneric, "no") }()
	_, err = m.Run([]byte(`{"execute": "set_password", "arguments": {"password": "hunter2"}}`))
	if want := "QMP set_password: no"; err == nil || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
}

// The loss of the connection, here in the middle of a reply, reaches everybody at once.
func TestLoss(t *testing.T) {
	m, s := connected(t)
	events, err := m.Events(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		s.receive()
		_, _ = io.WriteString(s.conn, `{"return": {"half`)
		s.conn.Close()
	}()
	if err := m.Execute(t.Context(), "query-status", nil, nil); !errors.Is(err, io.EOF) {
		t.Errorf("error is %v, want EOF", err)
	}
	<-m.Done()
	if err := m.Err(); !errors.Is(err, io.EOF) {
		t.Errorf("Err is %v, want EOF", err)
	}
	if _, open := <-events; open {
		t.Error("events go on")
	}
	if err := m.Execute(t.Context(), "query-status", nil, nil); !errors.Is(err, io.EOF) {
		t.Errorf("error of a later command is %v, want EOF", err)
	}
}

// The reply to quit counts even if the connection is gone right after it.
func TestLastReply(t *testing.T) {
	for range 50 {
		m, s := connected(t)
		go func() {
			s.reply(s.receive(), `{}`)
			s.conn.Close()
		}()
		if err := m.Execute(t.Context(), "quit", nil, nil); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDisconnect(t *testing.T) {
	m, s := connected(t)
	go func() {
		s.receive()
		m.Disconnect()
	}()
	if err := m.Execute(t.Context(), "query-status", nil, nil); !errors.Is(err, qmp.ErrClosed) {
		t.Errorf("error is %v, want ErrClosed", err)
	}
}

// A QEMU that takes no more commands, because it is stopped or hangs, holds nobody up beyond the deadline.
func TestNobodyReads(t *testing.T) {
	m, _ := connected(t)
	big := strings.Repeat("x", 1<<20)
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if err := m.Execute(ctx, "big", map[string]string{"x": big}, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error is %v, want the deadline", err)
		}
		cancel()
	}
}

// Run is the interface of go-qemu: JSON in, JSON out.
func TestRun(t *testing.T) {
	m, s := connected(t)
	go func() {
		c := s.receive()
		if c.Execute != "echo" || c.Arguments["a"] != "b" {
			t.Errorf("command is %+v", c)
		}
		s.reply(c, `[1, 2]`)
	}()
	out, err := m.Run([]byte(`{"execute": "echo", "arguments": {"a": "b"}, "id": "mine"}`))
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"return":[1,2]}`; string(out) != want {
		t.Errorf("reply is %s, want %s", out, want)
	}
}
