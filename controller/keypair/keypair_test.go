package keypair_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cuvee-vm/cuvee/controller/keypair"
)

const year = 365 * 24 * time.Hour

// TestNewServes serves TLS with a pair, to clients that trust its authority and to one that does not.
func TestNewServes(t *testing.T) {
	names := []string{"web.default.svc", "web.default.svc.cluster.local"}
	data, err := keypair.New(names, time.Now(), year)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(data[keypair.Certificate], data[keypair.PrivateKey])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(data[keypair.Authority]) {
		t.Fatal("the authority is no PEM")
	}
	for name, c := range map[string]struct {
		server  string
		roots   *x509.CertPool
		trusted bool
	}{
		"FirstName":      {names[0], roots, true},
		"SecondName":     {names[1], roots, true},
		"OtherName":      {"other.default.svc", roots, false},
		"OtherAuthority": {names[0], x509.NewCertPool(), false},
	} {
		t.Run(name, func(t *testing.T) {
			err := dial(t, pair, &tls.Config{RootCAs: c.roots, ServerName: c.server})
			if c.trusted && err != nil {
				t.Errorf("the client does not trust the server: %v", err)
			}
			if _, refused := errors.AsType[*tls.CertificateVerificationError](err); !c.trusted && !refused {
				t.Errorf("the client trusts the server, or fails with something else: %v", err)
			}
		})
	}
}

// dial connects to a server that has the pair, and returns the client's error.
func dial(t *testing.T, pair tls.Certificate, client *tls.Config) error {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		// The server ends with the client; what it thinks of it is not the question.
		_, _ = conn.Read(make([]byte, 1))
	}()
	conn, err := tls.Dial("tcp", l.Addr().String(), client)
	if err != nil {
		return err
	}
	return conn.Close()
}

func TestNewRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		names    []string
		validFor time.Duration
		want     string
	}{
		"NoName":     {nil, year, "no DNS name"},
		"BadName":    {[]string{"a b"}, year, `"a b" is no DNS name`},
		"BadSecond":  {[]string{"a", "a/b"}, year, `"a/b" is no DNS name`},
		"BareStar":   {[]string{"*"}, year, `"*" is no DNS name`},
		"NoTime":     {[]string{"a"}, 0, "want a positive duration"},
		"Yesterdays": {[]string{"a"}, -time.Hour, "want a positive duration"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := keypair.New(c.names, time.Now(), c.validFor)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

// TestNewTakesEveryName makes pairs for names that Kubernetes allows.
func TestNewTakesEveryName(t *testing.T) {
	long := strings.Repeat("a", 63) + "." + strings.Repeat("b", 63) + ".svc"
	for _, names := range [][]string{{"*.vms.example.com"}, {long}, {"b", "a", "b"}} {
		now := time.Now()
		data, err := keypair.New(names, now, year)
		if err != nil {
			t.Errorf("%v: %v", names, err)
			continue
		}
		if good, _ := keypair.Good(data, names, now, 0); !good {
			t.Errorf("%v: a new pair is not good", names)
		}
	}
}

func TestGood(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	names := []string{"a.example.com", "b.example.com"}
	pair := mustNew(t, names, now)
	other := mustNew(t, names, now)
	with := func(key string, value []byte) map[string][]byte {
		out := map[string][]byte{}
		for k, v := range pair {
			out[k] = v
		}
		out[key] = value
		return out
	}
	end := now.Add(year)
	for name, c := range map[string]struct {
		reason      string
		data        map[string][]byte
		names       []string
		now         time.Time
		renewBefore time.Duration
		good        bool
		renewAt     time.Time
	}{
		"New":            {"as it was made", pair, names, now, 720 * time.Hour, true, end.Add(-720 * time.Hour)},
		"OtherOrder":     {"names are a set", pair, []string{names[1], names[0]}, now, 0, true, end},
		"JustBefore":     {"it is not time yet", pair, names, end.Add(-720*time.Hour - time.Second), 720 * time.Hour, true, end.Add(-720 * time.Hour)},
		"TimeToRenew":    {"it is time", pair, names, end.Add(-720 * time.Hour), 720 * time.Hour, false, time.Time{}},
		"Over":           {"it has ended", pair, names, end.Add(time.Second), 0, false, time.Time{}},
		"TooLongAhead":   {"a new pair would not be good either", pair, names, now, 2 * year, true, end.Add(-(year + 5*time.Minute) / 2)},
		"NegativeAhead":  {"after its end is too late", pair, names, end.Add(time.Minute), -time.Hour, false, time.Time{}},
		"NameMissing":    {"a name was added", pair, append([]string{"c.example.com"}, names...), now, 0, false, time.Time{}},
		"NameTooMany":    {"a name was taken away", pair, names[:1], now, 0, false, time.Time{}},
		"Nothing":        {"an empty Secret", nil, names, now, 0, false, time.Time{}},
		"NoAuthority":    {"a part is missing", with(keypair.Authority, nil), names, now, 0, false, time.Time{}},
		"OtherAuthority": {"signed by another", with(keypair.Authority, other[keypair.Authority]), names, now, 0, false, time.Time{}},
		"OtherKey":       {"key and certificate do not fit", with(keypair.PrivateKey, other[keypair.PrivateKey]), names, now, 0, false, time.Time{}},
		"Garbage":        {"somebody changed it", with(keypair.Certificate, []byte("hello")), names, now, 0, false, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			good, renewAt := keypair.Good(c.data, c.names, c.now, c.renewBefore)
			if good != c.good {
				t.Errorf("good is %v, want %v: %s", good, c.good, c.reason)
			}
			if diff := cmp.Diff(c.renewAt, renewAt); diff != "" {
				t.Errorf("renewAt (-want +got):\n%s", diff)
			}
		})
	}
}

func mustNew(t *testing.T, names []string, now time.Time) map[string][]byte {
	t.Helper()
	data, err := keypair.New(names, now, year)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
