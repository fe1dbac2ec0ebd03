package keypair

import (
	"crypto/tls"
	"crypto/x509"
	"slices"
	"time"
)

// Good says whether a pair serves its purpose: it is whole, for these names and no others, and neither over nor about to be.
// If so, renewAt is when it has to be replaced: renewBefore ahead of its end, but not before half of its life is over, so that
// a duration that is too long does not make a new pair each time one looks.
func Good(data map[string][]byte, dnsNames []string, now time.Time, renewBefore time.Duration) (good bool, renewAt time.Time) {
	pair, err := tls.X509KeyPair(data[Certificate], data[PrivateKey])
	if err != nil {
		return false, time.Time{}
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil || !sameNames(leaf.DNSNames, dnsNames) {
		return false, time.Time{}
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(data[Authority]) {
		return false, time.Time{}
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now}); err != nil {
		return false, time.Time{}
	}
	life := leaf.NotAfter.Sub(leaf.NotBefore)
	renewAt = leaf.NotAfter.Add(-min(max(renewBefore, 0), life/2))
	if !now.Before(renewAt) {
		return false, time.Time{}
	}
	return true, renewAt
}

// sameNames compares names, in whatever order they are.
func sameNames(a, b []string) bool {
	return slices.Equal(sortedNames(a), sortedNames(b))
}

func sortedNames(names []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(names)))
}
