package main

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/cuvee-vm/cuvee/controller/keypair"
)

// TestMetricsTLS has the metrics served by HTTPS, and the certificate replaced meanwhile.
func TestMetricsTLS(t *testing.T) {
	w := newWorld(t, 1)
	dir := t.TempDir()
	// pair mounts a new certificate. What it returns is what a client that trusts only that reads, or why it does not.
	pair := func(version string) (read func(address string) string) {
		t.Helper()
		files, err := keypair.New([]string{"metrics.test"}, time.Now(), time.Hour)
		w.must(err)
		mount(t, dir, version, map[string]string{"tls.crt": string(files[keypair.Certificate]), "tls.key": string(files[keypair.PrivateKey])})
		trusted := x509.NewCertPool()
		if !trusted.AppendCertsFromPEM(files[keypair.Authority]) {
			t.Fatal("the authority is none")
		}
		client := &http.Client{Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: trusted, ServerName: "metrics.test"}, DisableKeepAlives: true,
		}, Timeout: patience}
		return func(address string) string {
			answer, err := client.Get("https://" + address + "/metrics")
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
	}
	first := pair("v1")
	address := w.address()
	w.manager(w.admin("tls"), "--metrics-cert-dir", dir, "--metrics-bind-address", address)
	w.eventually(func() string { return lacks(first(address), "cuvee_leader 1") })
	if problem := lacks(get(address, "/metrics"), "HTTPS server"); problem != "" {
		t.Error(problem)
	}
	second := pair("v2")
	w.eventually(func() string { return lacks(second(address), "cuvee_leader 1") })
	if problem := lacks(first(address), "certificate"); problem != "" {
		t.Error("the old certificate is still trusted")
	}
}
