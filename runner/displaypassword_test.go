package runner_test

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/cuvee-vm/cuvee/runner"
)

// Parts of SPICE's link stage, in the order in which they are sent. See spice/protocol.h.
type (
	spiceHeader struct {
		Magic                    [4]byte
		Major, Minor, LengthNext uint32
	}
	spiceHello struct {
		ConnectionID                     uint32
		ChannelType, ChannelID           uint8
		CommonCaps, ChannelCaps, CapsAtt uint32
	}
	spiceReply struct {
		Error     uint32
		PublicKey [162]byte
	}
)

// The results of a link.
const (
	spiceOK               = 0
	spicePermissionDenied = 7
)

const spiceMainChannel = 1

// spiceLink links to a SPICE server as a client that has a password, and says whether it was let in.
func spiceLink(address, password string) (bool, error) {
	conn, err := net.DialTimeout("tcp", address, runTime)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(runTime)); err != nil {
		return false, err
	}
	key, err := spiceGreet(conn)
	if err != nil {
		return false, err
	}
	// A ticket is encrypted with RSA-OAEP over SHA-1, and ends with a zero byte.
	ticket, err := rsa.EncryptOAEP(sha1.New(), rand.Reader, key, append([]byte(password), 0), nil)
	if err != nil {
		return false, fmt.Errorf("encrypt ticket: %w", err)
	}
	if _, err := conn.Write(ticket); err != nil {
		return false, fmt.Errorf("send ticket: %w", err)
	}
	var result uint32
	if err := binary.Read(conn, binary.LittleEndian, &result); err != nil {
		return false, fmt.Errorf("read result: %w", err)
	}
	switch result {
	case spiceOK:
		return true, nil
	case spicePermissionDenied:
		return false, nil
	}
	return false, fmt.Errorf("link has result %d", result)
}

// spiceGreet asks for the main channel, and returns the key for the ticket. A client without capabilities is not asked for the
// kind of its authentication: it is the ticket.
func spiceGreet(conn io.ReadWriter) (*rsa.PublicKey, error) {
	hello := spiceHello{ChannelType: spiceMainChannel}
	hello.CapsAtt = uint32(binary.Size(hello))
	header := spiceHeader{Magic: [4]byte{'R', 'E', 'D', 'Q'}, Major: 2, Minor: 2, LengthNext: uint32(binary.Size(hello))}
	var message bytes.Buffer
	for _, part := range []any{header, hello} {
		if err := binary.Write(&message, binary.LittleEndian, part); err != nil {
			return nil, err
		}
	}
	if _, err := conn.Write(message.Bytes()); err != nil {
		return nil, fmt.Errorf("send link message: %w", err)
	}
	if err := binary.Read(conn, binary.LittleEndian, &header); err != nil {
		return nil, fmt.Errorf("read link header: %w", err)
	}
	body := make([]byte, min(header.LengthNext, 4096))
	if _, err := io.ReadFull(conn, body); err != nil {
		return nil, fmt.Errorf("read link reply: %w", err)
	}
	var reply spiceReply
	if err := binary.Read(bytes.NewReader(body), binary.LittleEndian, &reply); err != nil {
		return nil, fmt.Errorf("read link reply: %w", err)
	}
	if reply.Error != spiceOK {
		return nil, fmt.Errorf("link is refused with %d", reply.Error)
	}
	parsed, err := x509.ParsePKIXPublicKey(reply.PublicKey[:])
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	key, ok := parsed.(*rsa.PublicKey)
	if !ok {
		return nil, errors.New("key is not for RSA")
	}
	return key, nil
}

// addSpice gives the VM a SPICE server on a free port, with the password in a file, and returns its address.
func addSpice(t *testing.T, c *runner.Config, passwordFile string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	c.Boot.Args = append(c.Boot.Args, runner.Arg{
		Option: "spice", Keys: map[string]any{"addr": host, "port": number, "disable-ticketing": false},
	})
	c.Live.Display = &runner.Display{Protocol: "spice", PasswordFile: passwordFile}
	return address
}

// secret is a mounted Secret with one key, which is changed as kubelet does it: by swapping a symlink.
type secret struct {
	t *testing.T
	// path is that of the key's value.
	path    string
	version int
}

func newSecret(t *testing.T, value string) *secret {
	t.Helper()
	s := &secret{t: t, path: filepath.Join(t.TempDir(), "display-password")}
	s.write(value)
	if err := os.Symlink(filepath.Join("..data", filepath.Base(s.path)), s.path); err != nil {
		t.Fatal(err)
	}
	return s
}

// write gives the key another value.
func (s *secret) write(value string) {
	s.t.Helper()
	dir, key := filepath.Split(s.path)
	link := filepath.Join(dir, "..data")
	s.version++
	name := func(version int) string { return fmt.Sprintf("..version_%d", version) }
	err := errors.Join(
		os.Mkdir(filepath.Join(dir, name(s.version)), 0o700),
		os.WriteFile(filepath.Join(dir, name(s.version), key), []byte(value), 0o600),
		os.Symlink(name(s.version), link+"_tmp"),
		os.Rename(link+"_tmp", link),
		os.RemoveAll(filepath.Join(dir, name(s.version-1))),
	)
	if err != nil {
		s.t.Fatal(err)
	}
}

// A display lets in who knows the newest password, and nobody else.
func TestDisplayPasswordChanges(t *testing.T) {
	c := loadConfig(t, "minimal")
	addGuest(t, c, guestHalts)
	password := newSecret(t, "first")
	address := addSpice(t, c, password.path)
	m := boot(t, c)
	link := func(password string, want bool) {
		t.Helper()
		if got, err := spiceLink(address, password); err != nil || got != want {
			t.Errorf("client with password %q: let in is %v, error %v, want %v", password, got, err, want)
		}
	}
	serial := func(want int64) {
		t.Helper()
		m.waitFor("the password is set", func(s runner.Status) bool { return s.DisplayPasswordSerial == want })
	}
	serial(1)
	link("first", true)
	link("second", false)
	link("", false)

	password.write("second\n")
	serial(2)
	link("second", true)
	link("first", false)
}
