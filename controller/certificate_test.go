package controller_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cuvee-vm/cuvee"
	"github.com/cuvee-vm/cuvee/controller"
	"github.com/cuvee-vm/cuvee/controller/keypair"
)

// pair is what a Secret has for a TLS server.
func (c *cluster) pair(secret string) map[string][]byte {
	c.Helper()
	return dataOf(c.Fatal, c.get("v1", "Secret", secret))
}

func dataOf(fail func(...any), secret *unstructured.Unstructured) map[string][]byte {
	data, _ := at(secret, "data").(map[string]any)
	out := map[string][]byte{}
	for file, text := range data {
		content, err := base64.StdEncoding.DecodeString(fmt.Sprint(text))
		if err != nil {
			fail(file, err)
		}
		out[file] = content
	}
	return out
}

// consoleName is what the console's certificate of a VM is for.
func (c *cluster) consoleName(vm string) []string {
	return []string{vm + "." + c.namespace + ".vm.cuvee-vm.github.io"}
}

// certificate waits for a good one in a Secret that is not that of another pair.
func (c *cluster) certificate(vm string, not map[string][]byte) map[string][]byte {
	c.Helper()
	var data map[string][]byte
	c.eventually(func() string {
		data = c.pair(vm + "-console-tls")
		if good, _ := keypair.Good(data, c.consoleName(vm), time.Now(), 0); !good {
			return "there is no good certificate"
		}
		if bytes.Equal(data[keypair.Certificate], not[keypair.Certificate]) {
			return "the certificate is still the same"
		}
		return ""
	})
	return data
}

// lasting is a package whose certificates last for a time, and are renewed ahead of their end.
func lasting(t *testing.T, validFor, renewBefore string) controller.Source {
	t.Helper()
	site := fmt.Sprintf("package vm\n\ngenerate: consoleTLS?: {validFor: %q, renewBefore: %q}\n", validFor, renewBefore)
	p, err := controller.Load(cuvee.Files, fstest.MapFS{"site.cue": {Data: []byte(site)}}, "site", "vm")
	if err != nil {
		t.Fatal(err)
	}
	return one(p)
}

// A certificate is made once, is left alone by this manager and the next, and is in its Secret only.
func TestCertificate(t *testing.T) {
	c := newNamespace(t)
	logged := &lines{}
	c.logged = logged
	recorded := &lines{}
	c.recorder = recorded
	c.start(one(vmPackage(t)))
	c.create(vmManifest, "web")
	data := c.certificate("web", nil)
	c.applied("web")
	c.quiet()

	c.stop()
	mark := c.mark()
	c.start(one(vmPackage(t)))
	c.create(vmManifest, "other")
	c.certificate("other", nil)
	c.quiet()
	for _, w := range c.writes(mark) {
		if strings.HasPrefix(w.Name, "web") {
			t.Errorf("written for nothing: %s", w)
		}
	}
	if now := c.pair("web-console-tls"); !bytes.Equal(now[keypair.PrivateKey], data[keypair.PrivateKey]) {
		t.Error("the certificate is another one after a restart")
	}

	key := string(data[keypair.PrivateKey])
	secrets := []string{key, base64.StdEncoding.EncodeToString(data[keypair.PrivateKey]), strings.Split(key, "\n")[1]}
	for where, text := range map[string]string{
		"log": logged.String(), "Events": recorded.String(),
		"VirtualMachine": fmt.Sprint(c.vm("web").Object), "ConfigMap": fmt.Sprint(c.get("v1", "ConfigMap", "web").Object),
	} {
		if text == "" {
			t.Errorf("nothing was looked at: %s", where)
		}
		for _, s := range secrets {
			if strings.Contains(text, s) {
				t.Errorf("the private key is in the %s", where)
			}
		}
	}
}

// Another certificate is made before the end of the first one, without a reason from outside.
func TestCertificateRenewed(t *testing.T) {
	c := newNamespace(t)
	c.start(lasting(t, "25s", "20s"))
	c.create(vmManifest, "web")
	first := c.certificate("web", nil)
	c.certificate("web", first)
}

// One that somebody has damaged is replaced.
func TestCertificateDamaged(t *testing.T) {
	c := newCluster(t)
	c.create(vmManifest, "web")
	first := c.certificate("web", nil)
	c.quiet()
	secret := c.get("v1", "Secret", "web-console-tls")
	c.must(unstructured.SetNestedField(secret.Object, "aGVsbG8=", "data", keypair.PrivateKey))
	c.must(api.Update(t.Context(), secret, client.FieldOwner("somebody")))
	c.certificate("web", first)
}

// A Secret that a user has made is used as it is, with whatever is in it. When it goes, there is one of ours.
func TestCertificateOfUser(t *testing.T) {
	c := newCluster(t)
	c.create(`{apiVersion: v1, kind: Secret, metadata: {name: web-console-tls}, data: {tls.crt: aGVsbG8=, mine: aGVsbG8=}}`)
	mine := c.get("v1", "Secret", "web-console-tls")
	c.create(vmManifest, "web")
	c.applied("web")
	c.quiet()
	if now := c.get("v1", "Secret", "web-console-tls"); now.GetResourceVersion() != mine.GetResourceVersion() {
		t.Errorf("a Secret of the user has been changed: %v", now.GetManagedFields())
	}
	c.must(api.Delete(t.Context(), mine))
	c.certificate("web", nil)
}

// lines is text that comes from several goroutines.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.WriteString(line + "\n")
}

// Eventf writes down an Event, as an events.EventRecorder.
func (l *lines) Eventf(_, _ runtime.Object, kind, reason, action, note string, args ...any) {
	l.add(kind + " " + reason + " " + action + " " + fmt.Sprintf(note, args...))
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
