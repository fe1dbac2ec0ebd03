package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/cuvee-vm/cuvee"
	"github.com/cuvee-vm/cuvee/controller"
	"github.com/cuvee-vm/cuvee/controller/testserver"
)

// clusterPatience is how long something in a cluster is waited for, on a machine with other work.
const clusterPatience = 2 * time.Minute

// apiServer is the API server of all tests here that need one. The first that does starts it.
var apiServer struct {
	once sync.Once
	*testserver.Server
	err error
}

// needAPIServer returns the API server, with the CustomResourceDefinition.
func needAPIServer(t *testing.T) *testserver.Server {
	t.Helper()
	s := &apiServer
	s.once.Do(func() {
		server, err := testserver.Start()
		if err != nil {
			s.err = err
			return
		}
		s.Server = server
		_, s.err = envtest.InstallCRDs(s.Config, envtest.CRDInstallOptions{
			Paths: []string{"../../kustomize/crd/vmoperator.jdrupes.org_vms.yaml"}, ErrorIfPathMissing: true, MaxTime: clusterPatience,
		})
	})
	testserver.Need(t, s.Server)
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.Server
}

// stopAPIServer stops it when all tests are over.
func stopAPIServer() {
	if apiServer.Server == nil {
		return
	}
	if err := apiServer.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// TestClusterScripts runs the scripts of testdata/cluster on a real API server, each in a namespace of its own, which $NS
// names. cuvee and kubectl use it by $KUBECONFIG. Controllers of Kubernetes do not run: scripts make the pods.
//
//	go test ./cmd/cuvee -run TestClusterScripts -update
//
// Besides the commands of testscript there are
//
//	applied VM FILE
//		Compare manifests of a VM with what an engine has applied, by the digests that it has written on the objects.
//	user NAME [VERB,... RESOURCE,...]...
//		Use the cluster from now on as a user of this name who may do these things in the script's namespace, and nothing else.
//	admin
//		Be the administrator again.
//	controller
//		Run the controller in the script's namespace from now on.
//	manage [SITE [CONFIG]]
//		Let an engine work in the script's namespace, with the built-in templates or with a site's, and with the manager's
//		configuration, until nothing is left to do.
//	until PATTERN PROGRAM [ARG...]
//		Run a program again and again until it prints what matches.
func TestClusterScripts(t *testing.T) {
	server := needAPIServer(t)
	kubectl, err := filepath.Abs(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"))
	if err != nil {
		t.Fatal(err)
	}
	var namespaces atomic.Int32
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("..", "..", "testdata", "cluster"),
		Setup: func(env *testscript.Env) error {
			ns := fmt.Sprintf("script-%d", namespaces.Add(1))
			file := filepath.Join(env.WorkDir, "kubeconfig")
			if err := testserver.WriteKubeconfig(file, server.Config); err != nil {
				return err
			}
			for name, value := range map[string]string{
				"NS": ns, "KUBECONFIG": file, "HOME": env.WorkDir, "XDG_RUNTIME_DIR": env.WorkDir,
				"PATH": filepath.Dir(kubectl) + ":" + env.Getenv("PATH"),
			} {
				env.Setenv(name, value)
			}
			return kube(kubectl, file, [][]string{
				{"create", "namespace", ns},
				{"config", "set-context", "--current", "--namespace", ns},
			})
		},
		Cmds:                clusterCommands,
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}

// kube runs kubectl some times.
func kube(kubectl, kubeconfig string, commands [][]string) error {
	ctx, cancel := context.WithTimeout(context.Background(), clusterPatience)
	defer cancel()
	for _, args := range commands {
		cmd := exec.CommandContext(ctx, kubectl, args...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("kubectl %v: %w\n%s", args, err, out)
		}
	}
	return nil
}

var clusterCommands = map[string]func(ts *testscript.TestScript, neg bool, args []string){
	"controller": cmdController,
	"applied":    cmdApplied,
	"admin":      cmdAdmin,
	"exits":      cmdExits,
	"manage":     cmdManage,
	"until":      cmdUntil,
	"user":       cmdUser,
}

func cmdAdmin(ts *testscript.TestScript, neg bool, args []string) {
	noNegation(ts, neg)
	if len(args) > 0 {
		ts.Fatalf("usage: admin")
	}
	ts.Setenv("KUBECONFIG", ts.MkAbs("kubeconfig"))
}

func cmdController(ts *testscript.TestScript, neg bool, args []string) {
	noNegation(ts, neg)
	if len(args) > 0 {
		ts.Fatalf("usage: controller")
	}
	hc, err := rest.HTTPClientFor(apiServer.Config)
	ts.Check(err)
	mapper, err := apiutil.NewDynamicRESTMapper(apiServer.Config, hc)
	ts.Check(err)
	templates, err := controller.Load(cuvee.Files, nil, "", "vm")
	ts.Check(err)
	ns := ts.Getenv("NS")
	engine, err := controller.New(controller.Options{
		Config: apiServer.Config, HTTPClient: hc, Mapper: mapper, Source: controller.Fixed{templates},
		Namespaces: []string{ns}, OwnNamespace: ns, Workers: 1, Log: logr.Discard(),
	})
	ts.Check(err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- engine.Start(ctx) }()
	ts.Defer(func() {
		cancel()
		if err := <-done; err != nil {
			ts.Logf("the controller: %v", err)
		}
	})
}

func cmdUser(ts *testscript.TestScript, neg bool, args []string) {
	noNegation(ts, neg)
	if len(args)%2 != 1 {
		ts.Fatalf("usage: user NAME [VERB,... RESOURCE,...]...")
	}
	cmdAdmin(ts, false, nil)
	name := args[0]
	config, err := apiServer.User(name)
	ts.Check(err)
	file := ts.MkAbs("kubeconfig-" + name)
	ts.Check(testserver.WriteKubeconfig(file, config))
	ts.Check(ts.Exec("kubectl", "--kubeconfig", file, "config", "set-context", "--current", "--namespace", ts.Getenv("NS")))
	for i := 1; i < len(args); i += 2 {
		role := fmt.Sprintf("%s-%d", name, i)
		ts.Check(ts.Exec("kubectl", "create", "role", role, "--verb", args[i], "--resource", args[i+1]))
		ts.Check(ts.Exec("kubectl", "create", "rolebinding", role, "--role", role, "--user", name))
	}
	ts.Setenv("KUBECONFIG", file)
}

func cmdUntil(ts *testscript.TestScript, neg bool, args []string) {
	noNegation(ts, neg)
	if len(args) < 2 {
		ts.Fatalf("usage: until PATTERN PROGRAM [ARG...]")
	}
	pattern, err := regexp.Compile(args[0])
	ts.Check(err)
	for end := time.Now().Add(clusterPatience); ; {
		err := ts.Exec(args[1], args[2:]...)
		if out := ts.ReadFile("stdout"); pattern.MatchString(out) {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("%s does not print %q: %v", args[1], args[0], err)
		}
		<-time.After(200 * time.Millisecond)
	}
}
