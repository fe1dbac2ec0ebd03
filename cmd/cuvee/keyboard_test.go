package main

import (
	"errors"
	"io"
	"testing"
)

// A run that has ended leaves a Read behind; what is typed later is for the next run.
func TestKeyboardSessions(t *testing.T) {
	in, typing := io.Pipe()
	keys := newKeyboard(in)
	first, over := keys.session()
	left := make(chan error)
	go func() {
		_, err := first.Read(make([]byte, 10))
		left <- err
	}()
	over()
	if err := <-left; !errors.Is(err, io.EOF) {
		t.Errorf("the first session's Read ended with %v, want io.EOF", err)
	}
	second, over := keys.session()
	defer over()
	go func() {
		_, _ = io.WriteString(typing, "hello")
		_ = typing.Close()
	}()
	got, err := io.ReadAll(second)
	if err != nil || string(got) != "hello" {
		t.Errorf("the second session read %q, %v", got, err)
	}
}
