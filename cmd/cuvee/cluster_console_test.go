package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"image"
	"image/png"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/cuvee-vm/cuvee/controller/keypair"
	"github.com/cuvee-vm/cuvee/controller/testserver"
	"github.com/cuvee-vm/cuvee/runner/consoleserver"
	"github.com/cuvee-vm/cuvee/runner/serial"
)

const consoleToken = "0123456789abcdef"

// consolePod is a VM of a cluster whose consoles are served. The API server is a real one, and so is the console's; kubelet, which has
// nothing to do but to connect the two, is the test's. "make e2e" has a real one.
type consolePod struct {
	*home
	kubeconfig string
	objects    dynamic.Interface
	serial     net.Conn
	keys       map[string][]byte
}

// TestConsoleOfCluster uses the consoles of a VM by way of the API server.
func TestConsoleOfCluster(t *testing.T) {
	p := newConsolePod(t)
	for _, behaviour := range []struct {
		name string
		test func(*testing.T, *consolePod)
	}{
		{"Log", testClusterLog},
		{"Types", testClusterTypes},
		{"Screenshot", testClusterScreenshot},
		{"VNC", testClusterVNC},
		{"Viewer", testClusterViewer},
		{"NotRunning", testClusterNotRunning},
		{"Wait", testClusterWait},
		{"Forbidden", testClusterForbidden},
		{"Rights", testClusterRights},
		{"WrongToken", testClusterWrongToken},
		{"Impostor", testClusterImpostor},
	} {
		t.Run(behaviour.name, func(t *testing.T) { behaviour.test(t, p) })
	}
}

// picture is a screen that shows nothing, and speaks no more of VNC than its first words.
type picture struct{}

const rfb = "RFB 003.008\n"

func (picture) VNC(context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	go func() { _, _ = there.Write([]byte(rfb)) }()
	return here, nil
}

func (picture) Screenshot(context.Context) ([]byte, error) {
	var b bytes.Buffer
	err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 4, 3)))
	return b.Bytes(), err
}

func newConsolePod(t *testing.T) *consolePod {
	t.Helper()
	server := needAPIServer(t)
	p := &consolePod{home: newHome(t)}
	p.kubeconfig = filepath.Join(p.dir, "kubeconfig")
	must(t, testserver.WriteKubeconfig(p.kubeconfig, server.Config))
	var err error
	p.objects, err = dynamic.NewForConfig(server.Config)
	must(t, err)
	p.keys, err = keypair.New([]string{"web.consoles.vm.cuvee-vm.github.io"}, time.Now(), time.Hour)
	must(t, err)
	address := p.serve(t)
	p.apply(t, startKubelet(t, map[string]string{"9479": address, "5900": address}))
	return p
}

// serve serves the consoles as the runner does, and returns where.
func (p *consolePod) serve(t *testing.T) string {
	t.Helper()
	pair, err := tls.X509KeyPair(p.keys["tls.crt"], p.keys["tls.key"])
	must(t, err)
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	port := serial.New(1 << 10)
	console := consoleserver.New(consoleserver.Options{
		Serial: port, Screen: func() consoleserver.Screen { return picture{} }, Token: func() string { return consoleToken },
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = console.Serve(ctx, l, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})
	}()
	guest, runner := net.Pipe()
	detach := port.Attach(runner)
	p.serial = guest
	t.Cleanup(func() {
		cancel()
		<-done
		guest.Close()
		detach()
	})
	return l.Addr().String()
}

const consoleObjects = `
apiVersion: v1
kind: Node
metadata: {name: consoles}
---
apiVersion: v1
kind: Namespace
metadata: {name: consoles}
---
apiVersion: vmoperator.jdrupes.org/v1
kind: VirtualMachine
metadata: {name: web, namespace: consoles}
spec: {vm: {state: Running, maximumRam: 1Gi, disks: [], networks: []}}
---
apiVersion: vmoperator.jdrupes.org/v1
kind: VirtualMachine
metadata: {name: idle, namespace: consoles}
spec: {vm: {state: Stopped, maximumRam: 1Gi, disks: [], networks: []}}
---
apiVersion: v1
kind: Pod
metadata: {name: web-0, namespace: consoles, annotations: {cuvee-vm.github.io/console-port: "9479"}}
spec:
  nodeName: consoles
  containers: [{name: web, image: none, ports: [{name: spice, containerPort: 5900}]}]
---
apiVersion: v1
kind: Secret
metadata: {name: web-console-token, namespace: consoles}
stringData: {token: %s}
---
apiVersion: v1
kind: Secret
metadata: {name: web-console-tls, namespace: consoles}
data: {ca.crt: %s}
---
apiVersion: v1
kind: Secret
metadata:
  name: web-display-secret
  namespace: consoles
  labels: {app.kubernetes.io/name: vm-runner, app.kubernetes.io/component: display-secret, app.kubernetes.io/instance: web}
stringData: {display-password: much secret}
`

// apply makes the VM's objects, as the manager and its pod's node would.
func (p *consolePod) apply(t *testing.T, nodePort string) {
	t.Helper()
	text := fmt.Sprintf(consoleObjects, consoleToken, base64.StdEncoding.EncodeToString(p.keys["ca.crt"]))
	file := p.write(t, text)
	kubectl, err := filepath.Abs(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"))
	must(t, err)
	must(t, kube(kubectl, p.kubeconfig, [][]string{
		{"apply", "-f", file},
		{"patch", "node", "consoles", "--subresource=status", "--type=merge", "--patch",
			`{"status":{"addresses":[{"type":"InternalIP","address":"127.0.0.1"}],"daemonEndpoints":{"kubeletEndpoint":{"Port":` + nodePort + `}}}}`},
		{"patch", "pod", "web-0", "-n", "consoles", "--subresource=status", "--type=merge", "--patch", `{"status":{"phase":"Running","podIP":"10.1.2.3"}}`},
		{"config", "set-context", "--current", "--namespace", "consoles"},
	}))
}

// startKubelet forwards ports of pods to addresses, as kubelet does when the API server asks it to; it returns its port.
func startKubelet(t *testing.T, ports map[string]string) string {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/portForward/consoles/web-0") {
			http.NotFound(w, r)
			return
		}
		if _, err := httpstream.Handshake(r, w, []string{"portforward.k8s.io"}); err != nil {
			return
		}
		streams := make(chan httpstream.Stream, 10)
		conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, replied <-chan struct{}) error {
			streams <- s
			return nil
		})
		if conn == nil {
			return
		}
		defer conn.Close()
		forward(conn, streams, ports)
	}))
	server.Config.ErrorLog = nil
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Listener.Close()
	})
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	must(t, err)
	return port
}

// forward connects the streams of a connection with a port, until it ends.
func forward(conn httpstream.Connection, streams <-chan httpstream.Stream, ports map[string]string) {
	var errs httpstream.Stream
	for {
		select {
		case <-conn.CloseChan():
			return
		case s := <-streams:
			if s.Headers().Get(corev1.StreamType) == corev1.StreamTypeError {
				errs = s
				continue
			}
			go func() {
				var d net.Dialer
				to, err := d.Dial("tcp", ports[s.Headers().Get(corev1.PortHeader)])
				if err != nil {
					fmt.Fprint(errs, err)
					_ = conn.Close()
					return
				}
				go func() { _, _ = io.Copy(to, s); to.Close() }()
				_, _ = io.Copy(s, to)
				_, _ = s.Close(), errs.Close()
			}()
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// args are those of a command that uses the cluster.
func (p *consolePod) args(args ...string) []string { return append(args, "--kubeconfig", p.kubeconfig) }

func testClusterLog(t *testing.T, p *consolePod) {
	if _, err := p.serial.Write([]byte("hello from the guest\r\n")); err != nil {
		t.Fatal(err)
	}
	if got := p.output(t, p.args("console", "web", "--log")...); got != "hello from the guest\r\n" {
		t.Errorf("the log is %q", got)
	}
}

func testClusterTypes(t *testing.T, p *consolePod) {
	c := p.onTerminal(t, p.args("console", "web")...)
	c.shows(t, "[cuvee: console of consoles/web (Ctrl-] detaches)]")
	c.typeIn(t, "ls\r")
	typed := make([]byte, 3)
	must(t, p.serial.SetDeadline(time.Now().Add(patience)))
	if _, err := io.ReadFull(p.serial, typed); err != nil || string(typed) != "ls\r" {
		t.Errorf("the guest reads %q, %v", typed, err)
	}
	if _, err := p.serial.Write([]byte("bin etc usr")); err != nil {
		t.Fatal(err)
	}
	c.shows(t, "bin etc usr")
	c.typeIn(t, detachKey)
	c.ends(t, 0)
}

func testClusterScreenshot(t *testing.T, p *consolePod) {
	got, err := png.Decode(strings.NewReader(p.output(t, p.args("screenshot", "web")...)))
	if err != nil || got.Bounds().Dx() != 4 {
		t.Errorf("the picture is %v, %v", got, err)
	}
}

func testClusterVNC(t *testing.T, p *consolePod) {
	cmd := p.command(t, p.args("vnc", "web")...)
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	line := make([]byte, 200)
	n, err := stdout.Read(line)
	must(t, err)
	for range 2 {
		var d net.Dialer
		conn, err := d.DialContext(t.Context(), "tcp", strings.TrimSpace(string(line[:n])))
		must(t, err)
		must(t, conn.SetDeadline(time.Now().Add(patience)))
		version := make([]byte, len(rfb))
		if _, err := io.ReadFull(conn, version); err != nil || string(version) != rfb {
			t.Errorf("the server says %q, %v", version, err)
		}
		conn.Close()
	}
	must(t, cmd.Process.Signal(syscall.SIGINT))
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// A file has the pod's address, as nobody forwards afterwards; the viewer that is opened is forwarded to.
func testClusterViewer(t *testing.T, p *consolePod) {
	want := "[virt-viewer]\ntype=spice\ntitle=web\nhost=10.1.2.3\nport=5900\npassword=much secret\ndelete-this-file=1\n"
	if got := p.output(t, p.args("viewer", "web", "--print")...); got != want {
		t.Errorf("the file is %q", got)
	}
	dir := t.TempDir()
	// It connects, and says whether it is the port that was forwarded: there is TLS.
	program := `#!/bin/bash
port=$(sed -n s/^port=//p "$1")
sed -n s/^host=//p "$1"
exec 3<>/dev/tcp/127.0.0.1/$port
printf 'GET / HTTP/1.0\r\n\r\n' >&3
head -c 15 <&3
`
	must(t, os.WriteFile(filepath.Join(dir, viewerProgram), []byte(program), 0o755))
	cmd := p.command(t, p.args("viewer", "web")...)
	cmd.Env = append(cmd.Env, "PATH="+dir+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "127.0.0.1\nHTTP/1.0 400") {
		t.Errorf("%v\n%s", err, out)
	}
}

func testClusterNotRunning(t *testing.T, p *consolePod) {
	for _, command := range []string{"console", "screenshot", "viewer", "vnc"} {
		p.fails(t, 1, "consoles/idle does not run (no manager has looked at it yet)", p.args(command, "idle")...)
		p.fails(t, 1, "consoles/wbe: not found; did you mean web? there are: idle, web", p.args(command, "wbe")...)
	}
	p.fails(t, 2, "--log and --wait exclude each other", p.args("console", "idle", "--log", "--wait")...)
	p.fails(t, 1, "consoles/wbe: not found", p.args("console", "wbe", "--wait")...)
	p.fails(t, 2, "--local and --data-dir are for VMs on this machine", p.args("console", "web", "--local")...)
	p.fails(t, 1, "default/web: no such VM runs here", "console", "web", "--local")
}

// testClusterWait asks for the console of a VM whose pod does not run yet.
func testClusterWait(t *testing.T, p *consolePod) {
	p.podPhase(t, "Pending")
	c := p.onTerminal(t, p.args("console", "web", "--wait")...)
	c.shows(t, "waiting: consoles/web does not run (no manager has looked at it yet)")
	p.podPhase(t, "Running")
	c.shows(t, "[cuvee: console of consoles/web (Ctrl-] detaches)]")
	c.typeIn(t, detachKey)
	c.ends(t, 0)
}

// podPhase is what kubelet says that the pod is doing.
func (p *consolePod) podPhase(t *testing.T, phase string) {
	t.Helper()
	patch := fmt.Sprintf(`{"status":{"phase":%q}}`, phase)
	_, err := p.objects.Resource(podResource).Namespace("consoles").Patch(t.Context(), "web-0", "application/merge-patch+json", []byte(patch), metav1.PatchOptions{}, "status")
	must(t, err)
}

// Whoever may not read the token, or not connect to the pod, gets no console, and reads what is missing.
// testClusterRights has users with exactly the rights of docs/cli.md:
//
//	| `console`, `screenshot`, `vnc` | `get` of `pods` and `secrets`, `create` (of older clusters `get`) of `pods/portforward` |
//	| `viewer` | `get` of `vms` and `pods`, `list` of `secrets`, and `pods/portforward` as above where it forwards |
func testClusterRights(t *testing.T, p *consolePod) {
	user := p.user(t, "console-user", "get", "pods,secrets", "create", "pods/portforward")
	p.output(t, "console", "web", "--log", "-n", "consoles", "--kubeconfig", user)
	p.output(t, "screenshot", "web", "-o", filepath.Join(t.TempDir(), "screen.png"), "-n", "consoles", "--kubeconfig", user)
	user = p.user(t, "console-viewer", "get", "vms.vmoperator.jdrupes.org,pods", "list", "secrets")
	p.output(t, "viewer", "web", "--print", "-n", "consoles", "--kubeconfig", user)
}

// user makes a user who may do some things, each a verb and resources, and returns the kubeconfig.
func (p *consolePod) user(t *testing.T, name string, rights ...string) string {
	t.Helper()
	config, err := apiServer.User(name)
	must(t, err)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, testserver.WriteKubeconfig(file, config))
	kubectl := filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl")
	for i := 0; i < len(rights); i += 2 {
		role := name + "-" + strconv.Itoa(i)
		must(t, kube(kubectl, p.kubeconfig, [][]string{
			{"create", "role", role, "--verb=" + rights[i], "--resource=" + rights[i+1]},
			{"create", "rolebinding", role, "--role=" + role, "--user=" + name},
		}))
		t.Cleanup(func() { must(t, kube(kubectl, p.kubeconfig, [][]string{{"delete", "role,rolebinding", role}})) })
	}
	return file
}

func testClusterForbidden(t *testing.T, p *consolePod) {
	for user, rights := range map[string]struct{ resources, said string }{
		"console-nobody":  {"vms.vmoperator.jdrupes.org", `cannot get resource "pods"`},
		"console-looker":  {"pods", `cannot get resource "secrets"`},
		"console-stopper": {"pods,secrets", `pods/portforward`},
	} {
		file := p.user(t, user, "get", rights.resources)
		p.fails(t, 1, rights.said, "console", "web", "--log", "-n", "consoles", "--kubeconfig", file)
	}
}

// patchSecret changes a Secret for the rest of a test.
func (p *consolePod) patchSecret(t *testing.T, name, key string, value []byte) {
	t.Helper()
	secrets := p.objects.Resource(secretResource).Namespace("consoles")
	secret, err := secrets.Get(t.Context(), name, metav1.GetOptions{})
	must(t, err)
	before := text(secret.Object, "data", key)
	secret.Object["data"].(map[string]any)[key] = base64.StdEncoding.EncodeToString(value)
	_, err = secrets.Update(t.Context(), secret, metav1.UpdateOptions{})
	must(t, err)
	t.Cleanup(func() {
		patch := fmt.Sprintf(`{"data":{%s:%s}}`, strconv.Quote(key), strconv.Quote(before))
		_, err := secrets.Patch(context.Background(), name, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{})
		must(t, err)
	})
}

func testClusterWrongToken(t *testing.T, p *consolePod) {
	p.patchSecret(t, "web-console-token", "token", []byte("another token of some length"))
	p.fails(t, 1, "token", p.args("console", "web", "--log")...)
}

// A console with another certificate is not spoken to: it might be anybody.
func testClusterImpostor(t *testing.T, p *consolePod) {
	keys, err := keypair.New([]string{"web.consoles.vm.cuvee-vm.github.io"}, time.Now(), time.Hour)
	must(t, err)
	p.patchSecret(t, "web-console-tls", "ca.crt", keys["ca.crt"])
	p.fails(t, 1, "certificate signed by unknown authority", p.args("console", "web", "--log")...)
}
