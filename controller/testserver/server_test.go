package testserver_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/cuvee-vm/cuvee/controller/testserver"
)

// patience is how long a test waits for what has to happen.
const patience = time.Minute

var server *testserver.Server

func TestMain(m *testing.M) { os.Exit(testserver.Main(m, &server)) }

// TestAudit finds in the audit log who wrote what.
func TestAudit(t *testing.T) {
	testserver.Need(t, server)
	config := rest.CopyConfig(server.Config)
	config.UserAgent = "audited"
	client := clientFor(t, config)
	mark, err := server.Mark()
	if err != nil {
		t.Fatal(err)
	}
	create(t, client, "audited")
	if err := client.CoreV1().ConfigMaps("default").Delete(t.Context(), "audited", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	writes := func(r testserver.Request) bool { return r.Agent == "audited" && r.IsWrite() }
	want := []testserver.Request{
		{User: "admin", Agent: "audited", Verb: "create", Resource: "configmaps", Namespace: "default", Name: "audited", Code: 201},
		{User: "admin", Agent: "audited", Verb: "delete", Resource: "configmaps", Namespace: "default", Name: "audited", Code: 200},
	}
	var got []testserver.Request
	eventually(t, func() bool {
		if got, err = server.Since(mark, writes); err != nil {
			t.Fatal(err)
		}
		return len(got) >= len(want)
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"create configmaps": 1, "delete configmaps": 1}, testserver.Count(got)); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

// TestUser connects as somebody without rights, by way of a kubeconfig.
func TestUser(t *testing.T) {
	testserver.Need(t, server)
	config, err := server.User("nobody-special")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := testserver.WriteKubeconfig(file, config); err != nil {
		t.Fatal(err)
	}
	if config, err = clientcmd.BuildConfigFromFlags("", file); err != nil {
		t.Fatal(err)
	}
	_, err = clientFor(t, config).CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("got %v, want forbidden", err)
	}
}

// TestRestart kills the API server; it comes back with what it had, at the same address, for the same users.
func TestRestart(t *testing.T) {
	testserver.Need(t, server)
	client := clientFor(t, server.Config)
	create(t, client, "kept")
	if err := server.Restart(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), "kept", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

// TestSlowEtcd makes every write take longer.
func TestSlowEtcd(t *testing.T) {
	testserver.Need(t, server)
	client := clientFor(t, server.Config)
	const delay = 300 * time.Millisecond
	server.SlowEtcd(delay)
	defer server.SlowEtcd(0)
	start := time.Now()
	create(t, client, "slow")
	if took := time.Since(start); took < 2*delay {
		t.Errorf("the write took %s, want at least %s", took, 2*delay)
	}
}

// TestProxyFaults gives each fault once, and lets the next request pass.
func TestProxyFaults(t *testing.T) {
	testserver.Need(t, server)
	proxy, err := testserver.NewProxy(server.Config)
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	client := clientFor(t, proxy.Config)
	for name, c := range map[string]struct {
		fault testserver.Fault
		is    func(error) bool
		made  bool
	}{
		"conflict":    {testserver.Fault{Status: http.StatusConflict}, apierrors.IsConflict, false},
		"internal":    {testserver.Fault{Status: http.StatusInternalServerError}, apierrors.IsInternalError, false},
		"unavailable": {testserver.Fault{Status: http.StatusServiceUnavailable}, apierrors.IsServiceUnavailable, false},
		"lost":        {testserver.Fault{Lost: true}, func(err error) bool { return err != nil && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown }, true},
		"delay":       {testserver.Fault{Delay: time.Millisecond}, func(err error) bool { return err == nil }, true},
	} {
		t.Run(name, func(t *testing.T) {
			proxy.SetFaults(func(*http.Request) testserver.Fault { return c.fault })
			// No retries: each answer counts.
			_, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), configMap("proxy-"+name), metav1.CreateOptions{})
			if !c.is(err) {
				t.Errorf("got %v", err)
			}
			proxy.SetFaults(nil)
			_, err = client.CoreV1().ConfigMaps("default").Get(t.Context(), "proxy-"+name, metav1.GetOptions{})
			if made := err == nil; made != c.made || err != nil && !apierrors.IsNotFound(err) {
				t.Errorf("the object is there: %v (%v), want %v", made, err, c.made)
			}
		})
	}
}

// TestProxyCutsWatches ends a watch that was told of what happened before.
func TestProxyCutsWatches(t *testing.T) {
	testserver.Need(t, server)
	proxy, err := testserver.NewProxy(server.Config)
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	proxy.SetFaults(testserver.Mixed(1, 0))
	watch, err := clientFor(t, proxy.Config).CoreV1().Namespaces().Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	events := 0
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for open := true; open; {
		select {
		case _, open = <-watch.ResultChan():
			events++
		case <-ctx.Done():
			t.Fatal("the watch goes on")
		}
	}
	if events < 2 {
		t.Error("the watch told of nothing before it was cut")
	}
	if proxy.Counts()["cut"] != 1 {
		t.Errorf("counts are %v, want one cut", proxy.Counts())
	}
}

// TestProxyCloses ends proxies while clients watch, who watch again each time that they are cut off.
func TestProxyCloses(t *testing.T) {
	testserver.Need(t, server)
	for range 100 {
		proxy, err := testserver.NewProxy(server.Config)
		if err != nil {
			t.Fatal(err)
		}
		stop := watchAgainAndAgain(t, proxy.Config)
		closed := make(chan struct{})
		go func() {
			proxy.Close()
			close(closed)
		}()
		select {
		case <-closed:
		case <-time.After(patience):
			t.Error("the proxy waits for its clients")
		}
		stop()
		if t.Failed() {
			return
		}
	}
}

// watchAgainAndAgain has clients watch, and returns when one does.
func watchAgainAndAgain(t *testing.T, config *rest.Config) (stop func()) {
	t.Helper()
	client := clientFor(t, config)
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	watching := make(chan struct{}, 1)
	for range 8 {
		clients.Go(func() {
			for ctx.Err() == nil {
				watch, err := client.CoreV1().Namespaces().Watch(ctx, metav1.ListOptions{})
				if err != nil {
					continue
				}
				select {
				case watching <- struct{}{}:
				default:
				}
				for range watch.ResultChan() {
					continue
				}
			}
		})
	}
	<-watching
	return func() {
		cancel()
		clients.Wait()
	}
}

// TestProcess starts a program, reads what it writes, and ends it both ways.
func TestProcess(t *testing.T) {
	script := `trap 'echo bye; exit 3' TERM; echo $GREETING; while :; do sleep 0.1; done`
	for name, end := range map[string]func(*testserver.Process){
		"Stop": func(p *testserver.Process) {
			if err := p.Stop(t.Context()); err == nil || err.Error() != "exit status 3" {
				t.Errorf("got %v, want exit status 3", err)
			}
			if got, want := p.Log(), "hello\nbye\n"; got != want {
				t.Errorf("wrote %q, want %q", got, want)
			}
		},
		"Kill": func(p *testserver.Process) {
			p.Kill()
			if got, want := p.Log(), "hello\n"; got != want {
				t.Errorf("wrote %q, want %q", got, want)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := testserver.StartProcess([]string{"GREETING=hello"}, "bash", "-c", script)
			if err != nil {
				t.Fatal(err)
			}
			eventually(t, func() bool { return p.Log() != "" })
			end(p)
			select {
			case <-p.Done():
			default:
				t.Error("it goes on")
			}
		})
	}
}

func clientFor(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func create(t *testing.T, client *kubernetes.Clientset, name string) {
	t.Helper()
	if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), configMap(name), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, is func() bool) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, patience, true, func(context.Context) (bool, error) { return is(), nil }); err != nil {
		t.Fatal("it did not happen")
	}
}
