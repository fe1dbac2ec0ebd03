// Package keypair makes the x509 key pairs that templates ask for, and says when one has to be replaced. What a pair is for,
// where it is kept and who sees it the templates decide.
package keypair

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// The keys of a pair in a Secret's data: those of a Secret of the type kubernetes.io/tls, with the authority that a client
// has to trust.
const (
	Certificate = "tls.crt"
	PrivateKey  = "tls.key"
	Authority   = "ca.crt"
)

// skew is how far a client's clock may be behind.
const skew = 5 * time.Minute

// New makes a certificate for a server with the names, and its key, valid from now on, as PEM by the keys of a Secret. It is
// signed by an authority of its own, whose key is not kept: nobody can make a second certificate that its clients would
// trust.
func New(dnsNames []string, now time.Time, validFor time.Duration) (map[string][]byte, error) {
	if err := checkNames(dnsNames); err != nil {
		return nil, fmt.Errorf("make a key pair: %w", err)
	}
	if validFor <= 0 {
		return nil, fmt.Errorf("make a key pair: it would be valid for %s, want a positive duration", validFor)
	}
	ca, caKey, err := newAuthority(now, validFor)
	if err != nil {
		return nil, fmt.Errorf("make an authority: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	// Without a serial number the library makes a random one, as the standard wants it.
	leaf := &x509.Certificate{
		Subject:               pkix.Name{CommonName: commonName(dnsNames[0])},
		DNSNames:              dnsNames,
		NotBefore:             now.Add(-skew),
		NotAfter:              now.Add(validFor),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), caKey)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("write a key: %w", err)
	}
	return map[string][]byte{
		Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		PrivateKey:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
		Authority:   pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw}),
	}, nil
}

// newAuthority makes an authority that lives as long as the one certificate that it is for.
func newAuthority(now time.Time, validFor time.Duration) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, authority(now, validFor), authority(now, validFor), key.Public(), key)
	if err != nil {
		return nil, nil, err
	}
	ca, err := x509.ParseCertificate(der)
	return ca, key, err
}

func authority(now time.Time, validFor time.Duration) *x509.Certificate {
	return &x509.Certificate{
		Subject:               pkix.Name{CommonName: "cuvee"},
		NotBefore:             now.Add(-skew),
		NotAfter:              now.Add(validFor),
		KeyUsage:              x509.KeyUsageCertSign,
		IsCA:                  true,
		MaxPathLenZero:        true,
		BasicConstraintsValid: true,
	}
}

// commonName is for people to read. What a client compares are the DNS names; a common name has 64 characters at most.
func commonName(name string) string {
	if len(name) > 64 {
		return ""
	}
	return name
}

func checkNames(names []string) error {
	if len(names) == 0 {
		return errors.New("it has no DNS name, want at least one")
	}
	for _, n := range names {
		wrong := validation.IsDNS1123Subdomain(n)
		if strings.HasPrefix(n, "*.") {
			wrong = validation.IsWildcardDNS1123Subdomain(n)
		}
		if len(wrong) > 0 {
			return fmt.Errorf("%q is no DNS name: %s", n, wrong[0])
		}
	}
	return nil
}
