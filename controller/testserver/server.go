// Package testserver runs a real API server with its etcd for tests, and what tests of a controller need around it: the audit
// log, which says who wrote what; a proxy that gives wrong answers; and programs that are started, killed and started again.
package testserver

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/cuvee-vm/cuvee/tools/freeport"
)

// assets is the variable that names the directory with the programs.
const assets = "KUBEBUILDER_ASSETS"

// ErrNoAssets says that the API server's program is not there.
var ErrNoAssets = errors.New(assets + " names no directory with etcd and kube-apiserver: run make kube, and set it to the directory that it prints")

// startTimeout is generous: on a machine with other work a start takes many times the usual three seconds.
const startTimeout = 2 * time.Minute

// Server is an API server with an etcd of its own. No controllers run in it.
type Server struct {
	// Config is that of an administrator. It has no limit of its own on requests.
	Config *rest.Config

	env  *envtest.Environment
	dir  string
	etcd *slowLink
}

// Start starts a server. Stop has to be called in the end.
func Start() (*Server, error) {
	if _, err := os.Stat(filepath.Join(os.Getenv(assets), "kube-apiserver")); err != nil {
		return nil, ErrNoAssets
	}
	dir, err := os.MkdirTemp("", "cuvee-test-server-")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir}
	if err := s.start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start a test server: %w", err), s.Stop())
	}
	return s, nil
}

func (s *Server) start() error {
	var ports [3]int
	for n := range ports {
		var err error
		if ports[n], err = freeport.Next(); err != nil {
			return err
		}
	}
	etcdURL := &url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", ports[0])}
	var err error
	// The API server talks to etcd through a link that can be slowed.
	if s.etcd, err = newSlowLink(etcdURL.Host); err != nil {
		return err
	}
	s.env = &envtest.Environment{ControlPlaneStartTimeout: startTimeout, ControlPlaneStopTimeout: startTimeout}
	s.env.ControlPlane.Etcd = &envtest.Etcd{URL: etcdURL}
	s.env.ControlPlane.Etcd.Configure().Set("unsafe-no-fsync", "true").
		Set("listen-peer-urls", fmt.Sprintf("http://127.0.0.1:%d", ports[1]))
	// A directory of our own outlives a restart, so that clients keep their trust in the server.
	api := &envtest.APIServer{CertDir: filepath.Join(s.dir, "apiserver")}
	api.SecureServing.ListenAddr = envtest.ListenAddr{Address: "127.0.0.1", Port: strconv.Itoa(ports[2])}
	s.env.ControlPlane.APIServer = api
	if err := os.Mkdir(api.CertDir, 0o700); err != nil {
		return err
	}
	policy := filepath.Join(s.dir, "audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return err
	}
	api.Configure().
		// Some distributions of Kubernetes have it: who names an owner has to have rights on it.
		Append("enable-admission-plugins", "OwnerReferencesPermissionEnforcement").
		Set("etcd-servers", "http://"+s.etcd.Addr()).
		Set("audit-policy-file", policy).
		Set("audit-log-path", s.auditLog()).
		Set("audit-log-maxsize", "10000")
	if s.Config, err = s.env.Start(); err != nil {
		return err
	}
	s.Config.QPS = -1
	return nil
}

// Stop ends the server and removes all that it kept.
func (s *Server) Stop() error {
	var err error
	if s.env != nil {
		err = s.env.Stop()
	}
	if s.etcd != nil {
		s.etcd.Close()
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

// Restart kills the API server without warning, waits as long as it is told to, and starts it again at the same address.
func (s *Server) Restart(ctx context.Context, away time.Duration) error {
	api := s.env.ControlPlane.APIServer
	if err := killByArgument("--cert-dir=" + api.CertDir); err != nil {
		return fmt.Errorf("kill the API server: %w", err)
	}
	// It notes that the process has ended.
	_ = api.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(away):
	}
	if err := api.Start(); err != nil {
		return fmt.Errorf("start the API server again: %w", err)
	}
	return nil
}

// SlowEtcd delays what goes between the API server and etcd, in each direction; 0 ends that.
func (s *Server) SlowEtcd(delay time.Duration) { s.etcd.SetDelay(delay) }

// User returns what a user connects with who has no rights yet but those that everybody has.
func (s *Server) User(name string, groups ...string) (*rest.Config, error) {
	user, err := s.env.AddUser(envtest.User{Name: name, Groups: groups}, &rest.Config{QPS: -1})
	if err != nil {
		return nil, fmt.Errorf("add user %s: %w", name, err)
	}
	return user.Config(), nil
}

// killByArgument kills this program's child that was started with the argument, and no other process.
func killByArgument(argument string) error {
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return err
	}
	for _, name := range lines {
		text, err := os.ReadFile(name)
		if err != nil || !strings.Contains("\x00"+string(text), "\x00"+argument+"\x00") {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err != nil {
			return err
		}
		return syscall.Kill(pid, syscall.SIGKILL)
	}
	return fmt.Errorf("no process has the argument %s", argument)
}
