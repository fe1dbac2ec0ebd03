package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cuvee-vm/cuvee/tools/freeport"
)

// TestTemplatesPage edits a site's file badly under a manager that runs: its page and an Event say so.
func TestTemplatesPage(t *testing.T) {
	w := newWorld(t, 1)
	dir := t.TempDir()
	file := filepath.Join(dir, "lab.cue")
	w.must(os.WriteFile(file, []byte("package vm\n"), 0o600))
	address := w.address()
	w.manager(w.admin("templates"), "--templates", dir, "--metrics-bind-address", address)
	w.eventually(func() string { return lacks(get(address, templatesPage), "for VirtualMachine") })
	w.must(os.WriteFile(file, []byte("package vm\n\nsettings: vm: maximumCpus: \"4\"\n"), 0o600))
	w.eventually(func() string { return lacks(get(address, templatesPage), "file       lab.cue\nline       3\n") })
	w.eventually(func() string {
		events, err := w.client.Resource(resource("events.k8s.io", "events")).Namespace(w.namespace).List(t.Context(), metav1.ListOptions{})
		w.must(err)
		text := ""
		for _, e := range events.Items {
			text += e.Object["reason"].(string) + "\n"
		}
		return lacks(text, "TemplatesRefused")
	})
}

func lacks(text, what string) string {
	if strings.Contains(text, what) {
		return ""
	}
	return "there is no " + what + " in:\n" + text
}

// address is one that nothing listens at.
func (w *world) address() string {
	w.Helper()
	port, err := freeport.Next()
	w.must(err)
	return fmt.Sprintf("127.0.0.1:%d", port)
}

// get returns the text of a page, or why there is none.
func get(address, page string) string {
	answer, err := http.Get("http://" + address + page)
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
