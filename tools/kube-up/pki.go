package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// validity is how long certificates hold. No test runs longer.
const validity = 30 * 24 * time.Hour

// authority signs certificates and writes them to a directory.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  crypto.Signer
	pem  []byte
}

// identity is what a certificate says about its holder.
type identity struct {
	name, group string
	usage       x509.ExtKeyUsage
	hosts       []string
	addresses   []net.IP
}

// keys are what this program itself needs of all the keys.
type keys struct{ client *http.Client }

// writeKeys writes the keys, certificates and kubeconfigs of a cluster.
func writeKeys(o *options, server string) (*keys, error) {
	a, err := newAuthority(filepath.Join(o.dir, "pki"))
	if err != nil {
		return nil, err
	}
	err = a.write("apiserver", identity{
		name: "kube-apiserver", usage: x509.ExtKeyUsageServerAuth,
		hosts:     []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
		addresses: []net.IP{net.IPv4(127, 0, 0, 1), net.ParseIP(firstService), o.address.AsSlice()},
	})
	if err != nil {
		return nil, err
	}
	if err := a.write("apiserver-kubelet", client("kube-apiserver-kubelet-client", "system:masters")); err != nil {
		return nil, err
	}
	if err := a.writeServiceAccountKey(); err != nil {
		return nil, err
	}
	clients := map[string]identity{
		"admin":                   client("admin", "system:masters"),
		"kube-controller-manager": client("system:kube-controller-manager", ""),
		"kube-scheduler":          client("system:kube-scheduler", ""),
		"kube-proxy":              client("system:kube-proxy", "system:node-proxier"),
	}
	for _, n := range o.nodes {
		clients["kubelet-"+n.name] = client("system:node:"+n.name, "system:nodes")
		err := a.write("kubelet-"+n.name, identity{
			name: "system:node:" + n.name, group: "system:nodes", usage: x509.ExtKeyUsageServerAuth,
			hosts: []string{n.name}, addresses: []net.IP{net.IPv4(127, 0, 0, 1), n.address.AsSlice()},
		})
		if err != nil {
			return nil, err
		}
	}
	var admin tls.Certificate
	for name, id := range clients {
		cert, key, err := a.sign(id)
		if err != nil {
			return nil, err
		}
		if err := write(filepath.Join(o.dir, name+".kubeconfig"), kubeconfig(server, a.pem, cert, key)); err != nil {
			return nil, err
		}
		if name == "admin" {
			if admin, err = tls.X509KeyPair(cert, key); err != nil {
				return nil, err
			}
		}
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return &keys{&http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
		RootCAs: pool, Certificates: []tls.Certificate{admin}, MinVersion: tls.VersionTLS12,
	}}}}, nil
}

func client(name, group string) identity {
	return identity{name: name, group: group, usage: x509.ExtKeyUsageClientAuth}
}

func newAuthority(dir string) (*authority, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kube-up"},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(validity),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	a := &authority{dir: dir, cert: cert, key: key, pem: block("CERTIFICATE", der)}
	keyPEM, err := encode(key)
	if err != nil {
		return nil, err
	}
	return a, a.files("ca", a.pem, keyPEM)
}

// sign makes a key and its certificate, both as PEM.
func (a *authority) sign(id identity) (cert, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, err
	}
	subject := pkix.Name{CommonName: id.name}
	if id.group != "" {
		subject.Organization = []string{id.group}
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial, Subject: subject, NotBefore: a.cert.NotBefore, NotAfter: a.cert.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{id.usage},
		DNSNames: id.hosts, IPAddresses: id.addresses,
	}, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("sign the certificate of %s: %w", id.name, err)
	}
	keyPEM, err = encode(key)
	return block("CERTIFICATE", der), keyPEM, err
}

func (a *authority) write(file string, id identity) error {
	cert, key, err := a.sign(id)
	if err != nil {
		return err
	}
	return a.files(file, cert, key)
}

func (a *authority) files(name string, cert, key []byte) error {
	if err := write(filepath.Join(a.dir, name+".crt"), cert); err != nil {
		return err
	}
	return write(filepath.Join(a.dir, name+".key"), key)
}

// writeServiceAccountKey makes the pair that tokens of service accounts are signed with.
func (a *authority) writeServiceAccountKey() error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	if err := write(filepath.Join(a.dir, "sa.pub"), block("PUBLIC KEY", public)); err != nil {
		return err
	}
	return write(filepath.Join(a.dir, "sa.key"), block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key)))
}

func encode(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return block("EC PRIVATE KEY", der), nil
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// kubeconfig holds all that it needs, so that it can be copied elsewhere.
func kubeconfig(server string, ca, cert, key []byte) []byte {
	base64 := base64.StdEncoding.EncodeToString
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: test
clusters: [{name: test, cluster: {server: "%s", certificate-authority-data: %s}}]
users: [{name: test, user: {client-certificate-data: %s, client-key-data: %s}}]
contexts: [{name: test, context: {cluster: test, user: test}}]
`, server, base64(ca), base64(cert), base64(key))
}
