//go:build e2e

package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func cmdServe(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 || (args[0] != "http" && args[0] != "https") {
		ts.Fatalf("usage: serve http|https DIR")
	}
	k, _ := ts.Value(kube{}).(kube)
	address, err := k.ownAddress()
	ts.Check(err)
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", net.JoinHostPort(address, "0"))
	ts.Check(err)
	server := &http.Server{Handler: http.FileServer(http.Dir(ts.MkAbs(args[1]))), ReadHeaderTimeout: time.Minute}
	if args[0] == "https" {
		pair, authority, err := selfSigned(address)
		ts.Check(err)
		ts.Check(os.WriteFile(ts.MkAbs("ca.crt"), authority, 0o600))
		l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})
	}
	go func() { _ = server.Serve(l) }()
	ts.Defer(func() { _ = server.Close() })
	ts.Setenv("URL", args[0]+"://"+l.Addr().String())
}

// selfSigned makes a certificate for an address, which is its own authority, and returns that as PEM, too.
func selfSigned(address string) (tls.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "a script of Cuvee's tests"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		IPAddresses:           []net.IP{net.ParseIP(address)},
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, authority, nil
}

// ownAddress is that of this machine in the network of the nodes. The API server may be at an address of this machine alone, as that of kind.
func (k kube) ownAddress() (string, error) {
	node, err := k.kubectl("get", "nodes", "-o", `jsonpath={.items[0].status.addresses[?(@.type=="InternalIP")].address}`)
	if err != nil {
		return "", err
	}
	node, _, _ = strings.Cut(node, " ")
	// Nothing is sent: the kernel only says which of its addresses it would use.
	conn, err := (&net.Dialer{}).Dial("udp", net.JoinHostPort(node, "443"))
	if err != nil {
		return "", fmt.Errorf("which address pods reach this machine at: %w", err)
	}
	defer conn.Close()
	host, _, err := net.SplitHostPort(conn.LocalAddr().String())
	return host, err
}
