package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

func TestArguments(t *testing.T) {
	for name, args := range map[string][]string{
		"Nothing":     nil,
		"NoDevice":    {"-resource", "example.com/kvm"},
		"NoDirectory": {"-resource", "example.com/kvm", "-device", "/dev/kvm", "-dir", "/nonexistent"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := run(context.Background(), args, &bytes.Buffer{}); err == nil || strings.Contains(err.Error(), "\n") {
				t.Errorf("the error is %v, want one line", err)
			}
		})
	}
}
