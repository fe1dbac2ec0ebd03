package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cuvee-vm/cuvee/controller/testserver"
)

// variables are an environment.
type variables map[string]string

func (v variables) get(name string) string { return v[name] }

// A flag goes before its variable, and that before the default; an empty variable says nothing.
func TestPrecedence(t *testing.T) {
	cases := map[string]struct {
		args []string
		env  variables
		want time.Duration
	}{
		"Default":       {nil, nil, 30 * time.Second},
		"EmptyVariable": {nil, variables{"RECONCILE_INTERVAL": ""}, 30 * time.Second},
		"Variable":      {nil, variables{"RECONCILE_INTERVAL": "1m"}, time.Minute},
		"Flag":          {[]string{"--reconcile-interval=2m"}, variables{"RECONCILE_INTERVAL": "1m"}, 2 * time.Minute},
		"BadBehindFlag": {[]string{"--reconcile-interval=2m"}, variables{"RECONCILE_INTERVAL": "x"}, 2 * time.Minute},
		"Never":         {[]string{"--reconcile-interval", "0"}, nil, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o, err := parse(tc.args, tc.env.get, &bytes.Buffer{})
			if err != nil {
				t.Fatal(err)
			}
			if o.interval != tc.want {
				t.Errorf("the interval is %v, want %v", o.interval, tc.want)
			}
		})
	}
}

// Every option is a flag and a variable, with the same effect.
func TestVariables(t *testing.T) {
	values := map[string]string{
		"config":        "/etc/config.yaml",
		"debug-address": "localhost:6060", "health-probe-bind-address": "0", "kube-context": "lab", "leader-election": "false", "log-level": "warn",
		"max-concurrent-reconciles": "64", "metrics-bind-address": "[::1]:9090", "metrics-cert-dir": "/etc/tls", "namespace": "vms", "reconcile-interval": "1h", "templates": "/etc/site",
		"watch-namespaces": "a,b",
	}
	o := options{}
	for _, s := range o.settings() {
		if s.name == "kubeconfig" {
			continue // client-go reads the variable.
		}
		v := values[s.name]
		if v == "" {
			t.Errorf("there is no case for --%s", s.name)
			continue
		}
		byDefault, err := parse(nil, variables{}.get, &bytes.Buffer{})
		if err != nil {
			t.Fatal(err)
		}
		byFlag, err := parse([]string{"--" + s.name + "=" + v}, variables{}.get, &bytes.Buffer{})
		if err != nil {
			t.Fatal(err)
		}
		byVariable, err := parse(nil, variables{variable(s.name): v}.get, &bytes.Buffer{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(byFlag, byVariable, cmp.AllowUnexported(options{})); diff != "" {
			t.Errorf("%s (-flag +variable):\n%s", s.name, diff)
		}
		if cmp.Equal(byDefault, byFlag, cmp.AllowUnexported(options{})) {
			t.Errorf("--%s=%s has no effect", s.name, v)
		}
	}
}

// What is wrong is said on one line, by the name that it was given by.
func TestBadOptions(t *testing.T) {
	cases := map[string]struct {
		args []string
		env  variables
		want string
	}{
		"UnknownFlag":     {[]string{"--nope"}, nil, `unknown flag: --nope`},
		"Argument":        {[]string{"x"}, nil, `unexpected argument "x"`},
		"Concurrent":      {[]string{"--max-concurrent-reconciles", "0"}, nil, `--max-concurrent-reconciles is "0", want 1 to 64`},
		"ConcurrentEnv":   {nil, variables{"MAX_CONCURRENT_RECONCILES": "many"}, `MAX_CONCURRENT_RECONCILES is "many", want 1 to 64`},
		"Interval":        {[]string{"--reconcile-interval", "-1s"}, nil, `--reconcile-interval is "-1s", want a time such as 30s or 1h, or 0`},
		"IntervalEnv":     {nil, variables{"RECONCILE_INTERVAL": "30"}, `RECONCILE_INTERVAL is "30", want a time such as 30s or 1h, or 0`},
		"LogLevel":        {[]string{"--log-level", "loud"}, nil, `--log-level is "loud", want debug, info, warn or error`},
		"Election":        {nil, variables{"LEADER_ELECTION": "perhaps"}, `LEADER_ELECTION is "perhaps", want true or false`},
		"Metrics":         {[]string{"--metrics-bind-address", "8080"}, nil, `--metrics-bind-address is "8080", want an address such as :8080 or 127.0.0.1:8080, or 0`},
		"Port":            {nil, variables{"HEALTH_PROBE_BIND_ADDRESS": ":808080"}, `HEALTH_PROBE_BIND_ADDRESS is ":808080", want an address such as :8080 or 127.0.0.1:8080, or 0`},
		"Namespace":       {[]string{"--namespace", "a/b"}, nil, `--namespace is "a/b", want the name of a namespace`},
		"NoNamespace":     {[]string{"--namespace", ""}, nil, `--namespace is "", want the name of a namespace`},
		"WatchNone":       {[]string{"--watch-namespaces", ""}, nil, `--watch-namespaces is "", want names of namespaces, or *`},
		"WatchBad":        {nil, variables{"WATCH_NAMESPACES": "a,B"}, `WATCH_NAMESPACES is "a,B", want names of namespaces, or *`},
		"WatchAllAndOne":  {[]string{"--watch-namespaces", "*,a"}, nil, `--watch-namespaces is "*,a", want either names of namespaces or *`},
		"TwoBadVariables": {nil, variables{"LOG_LEVEL": "x", "LEADER_ELECTION": "y"}, "LEADER_ELECTION is \"y\", want true or false\nLOG_LEVEL is \"x\", want debug, info, warn or error"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := parse(tc.args, tc.env.get, &bytes.Buffer{})
			if err == nil {
				t.Fatal("it is taken")
			}
			if diff := cmp.Diff(tc.want, err.Error()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// The namespaces to work in are the manager's own, unless others are named.
func TestManagedNamespaces(t *testing.T) {
	cases := map[string]struct {
		args []string
		want []string
	}{
		"Own":      {nil, []string{"mine"}},
		"Others":   {[]string{"--watch-namespaces", "a,b"}, []string{"a", "b"}},
		"Repeated": {[]string{"--watch-namespaces", "a", "--watch-namespaces", "b"}, []string{"a", "b"}},
		"All":      {[]string{"--watch-namespaces", "*"}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o, err := parse(append(tc.args, "--namespace", "mine"), variables{}.get, &bytes.Buffer{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, o.managed()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// The manager's namespace is what it was told, else what its configuration says, else its pod's; elsewhere somebody has to say it.
func TestOwnNamespace(t *testing.T) {
	write := func(text string) string {
		t.Helper()
		name := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	inPod, config := write("of-the-pod\n"), write("/Manager/Controller:\n  namespace: configured\n")
	const nowhere = "/nonexistent"
	cases := map[string]struct{ given, config, file, want, problem string }{
		"Given":        {"given", config, inPod, "given", ""},
		"Configured":   {"", config, inPod, "configured", ""},
		"Outside":      {"", config, nowhere, "configured", ""},
		"InPod":        {"", "", inPod, "of-the-pod", ""},
		"NotSaid":      {"", write("/Manager: {}\n"), inPod, "of-the-pod", ""},
		"NoConfig":     {"", nowhere, inPod, "of-the-pod", ""},
		"BesideFault":  {"", write("/Manager/Controller:\n  namespace: configured\n  x: 1\n"), nowhere, "configured", ""},
		"Elsewhere":    {"", "", nowhere, "", "the manager's namespace is not known"},
		"WrongFile":    {"", nowhere, nowhere, "", "read the configuration: open /nonexistent: no such file or directory"},
		"BadConfig":    {"", write("/Manager/Controller:\n  namespace: A\n"), nowhere, "", ":2:14: /Manager/Controller.namespace: want the name of a namespace"},
		"BrokenInAPod": {"", "", write(""), "", `has "", want the name of a namespace`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := options{namespace: tc.given, config: tc.config}
			err := o.place(tc.file)
			if tc.problem != "" {
				if err == nil || !strings.Contains(err.Error(), tc.problem) {
					t.Errorf("the error is %v, want %q", err, tc.problem)
				}
				return
			}
			if err != nil || o.namespace != tc.want {
				t.Errorf("it is %q (%v), want %q", o.namespace, err, tc.want)
			}
		})
	}
}

// The exit code says whether the command line was wrong; help and version are what is asked for.
func TestExitCodes(t *testing.T) {
	cases := map[string]struct {
		args []string
		env  []string
		code int
		want string
	}{
		"Help":          {[]string{"--help"}, nil, exitOK, "METRICS_BIND_ADDRESS is --metrics-bind-address"},
		"Version":       {[]string{"--version"}, nil, exitOK, "cuvee-manager dev\ngo"},
		"Flag":          {[]string{"--log-level", "loud"}, nil, exitUsage, "cuvee-manager: --log-level is \"loud\", want debug, info, warn or error\n"},
		"Variable":      {nil, []string{"LOG_LEVEL=loud"}, exitUsage, "cuvee-manager: LOG_LEVEL is \"loud\", want debug, info, warn or error\n"},
		"Nowhere":       {nil, nil, exitUsage, "cuvee-manager: the manager's namespace is not known"},
		"NoCertificate": {[]string{"--namespace", "x", "--metrics-cert-dir", "/nonexistent"}, nil, exitFailed, "read the certificate of the metrics: "},
		"NoAPIServer":   {[]string{"--namespace", "x", "--kubeconfig", "/nonexistent"}, nil, exitFailed, "find the API server: "},
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p, err := testserver.StartProcess(append(tc.env, asManager+"=1"), self, tc.args...)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Kill()
			<-p.Done()
			if problem := lacks(p.Log(), tc.want); problem != "" {
				t.Error(problem)
			}
			if code := p.ExitCode(); code != tc.code {
				t.Errorf("the exit code is %d, want %d", code, tc.code)
			}
		})
	}
}
