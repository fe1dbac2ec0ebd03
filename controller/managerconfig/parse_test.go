package managerconfig

import (
	"errors"
	"strings"
	"testing"

	"cuelang.org/go/cue/format"
	"github.com/google/go-cmp/cmp"

	"github.com/cuvee-vm/cuvee/render"
)

func TestParse(t *testing.T) {
	cases := map[string]struct {
		reason string
		text   string
		want   Config
	}{
		"Empty":    {"nothing is configured", "", Config{Settings: "package vm\n"}},
		"Comments": {"all below a key may be a comment", "\"/Manager\":\n  \"/Controller\":\n    # namespace: x\n", Config{Settings: "package vm\n"}},
		"Namespace": {"the namespace is no setting", "\"/Manager\":\n  \"/Controller\":\n    namespace: vmop-dev\n",
			Config{Namespace: "vmop-dev", Settings: "package vm\n"}},
		"Reconciler": {"each setting is in the line that it is in, and components may be joined", `"/Manager":
  # The cluster's name.
  clusterName: "lab"
  "/Controller/Reconciler":
    runnerDataPvc:
      storageClassName: local-path
    cpuOvercommit: 3
    ramOvercommit: 1.5
    loadBalancerService:
      labels: {a: "1", b: "2"}
      annotations:
        metallb.universe.tf/loadBalancerIPs: 192.168.1.1
`, Config{Ineffective: []string{"/Manager.clusterName"}, Settings: `package vm




settings: runnerDataPvc: storageClassName: "local-path"
settings: cpuOvercommit: 3
settings: ramOvercommit: 1.5

settings: loadBalancerService: labels: {"a": "1"}, settings: loadBalancerService: labels: {"b": "2"}, settings: loadBalancerService: enabled: true

settings: loadBalancerService: annotations: {"metallb.universe.tf/loadBalancerIPs": "192.168.1.1"}
`}},
		"OneLine": {"YAML may be on the first line, where the package clause is", `{"/Manager/Controller/Reconciler": {cpuOvercommit: 3}}`,
			Config{Settings: "package vm, settings: cpuOvercommit: 3\n"}},
		"LoadBalancer": {"true is what it is in YAML 1.1", "/Manager/Controller/Reconciler:\n  loadBalancerService: yes\n",
			Config{Settings: "package vm\nsettings: loadBalancerService: enabled: true\n"}},
		"Injection": {"a value stays a value", "/Manager/Controller/Reconciler:\n  runnerDataPvc: {storageClassName: \"a\\\"\\nx: 1\\\\(y)\"}\n",
			Config{Settings: "package vm\nsettings: runnerDataPvc: storageClassName: \"a\\\"\\nx: 1\\\\(y)\"\n"}},
		"Gui": {"what VM-Operator's GUI needs is accepted, whatever it is", "/Manager:\n  /GuiHttpServer:\n    users: [{name: admin}]\n  /Controller:\n    /DisplaySecretMonitor: {}\n",
			Config{Ineffective: []string{"/Manager/GuiHttpServer", "/Manager/Controller/DisplaySecretMonitor"}, Settings: "package vm\n"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Parse("config.yaml", []byte(tc.text))
			if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			if diff := cmp.Diff(&tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			if _, err := format.Source([]byte(got.Settings)); err != nil {
				t.Errorf("the settings are no CUE: %v", err)
			}
		})
	}
}

func TestFaults(t *testing.T) {
	cases := map[string]struct{ text, want string }{
		"NoYAML":      {"\"/Manager\":\n  \"/Controller\":\n    \"/Reconciler\"\n      x: 1\n", `config.yaml:4:1: this is no YAML: `},
		"NoMapping":   {"- a\n", "config.yaml:1:1: want keys and their values"},
		"Component":   {"\"/Manger\":\n", "config.yaml:1:1: /Manger: unknown key, did you mean /Manager?"},
		"Property":    {"/Manager/Controller/Reconciler:\n  runnerData:\n    storageClassName: x\n", "config.yaml:2:3: /Manager/Controller/Reconciler.runnerData: unknown key, did you mean runnerDataPvc?"},
		"Stranger":    {"/Manager/Controller:\n  q: 1\n", "config.yaml:2:3: /Manager/Controller.q: unknown key, known are /DisplaySecretMonitor, /Reconciler, namespace"},
		"Text":        {"/Manager/Controller/Reconciler:\n  runnerDataPvc: {storageClassName: 5}\n", "config.yaml:2:37: /Manager/Controller/Reconciler.runnerDataPvc.storageClassName: want a text"},
		"Number":      {"/Manager/Controller/Reconciler:\n  cpuOvercommit: \"2x\"\n", "config.yaml:2:18: /Manager/Controller/Reconciler.cpuOvercommit: want a number"},
		"NaN":         {"/Manager/Controller/Reconciler:\n  cpuOvercommit: .nan\n", "config.yaml:2:18: /Manager/Controller/Reconciler.cpuOvercommit: want a number"},
		"List":        {"/Manager/Controller/Reconciler:\n  cpuOvercommit: [2]\n", "config.yaml:2:18: /Manager/Controller/Reconciler.cpuOvercommit: want a number"},
		"Service":     {"/Manager/Controller/Reconciler:\n  loadBalancerService: 7\n", "config.yaml:2:24: /Manager/Controller/Reconciler.loadBalancerService: want true, false, or labels and annotations"},
		"ServiceKey":  {"/Manager/Controller/Reconciler:\n  loadBalancerService: {label: {}}\n", "config.yaml:2:25: /Manager/Controller/Reconciler.loadBalancerService.label: unknown key, did you mean labels?"},
		"Label":       {"/Manager/Controller/Reconciler:\n  loadBalancerService: {labels: {a: 1}}\n", "config.yaml:2:37: /Manager/Controller/Reconciler.loadBalancerService.labels.a: want a text; a number or true has to be in quotes"},
		"Namespace":   {"/Manager/Controller: {namespace: A_b}\n", "config.yaml:1:34: /Manager/Controller.namespace: want the name of a namespace"},
		"Twice":       {"/Manager/Controller/Reconciler:\n  cpuOvercommit: 2\n  cpuOvercommit: 3\n", "config.yaml:3:3: /Manager/Controller/Reconciler.cpuOvercommit: this is there twice"},
		"TwoOfThem":   {"/Manager/Controller:\n  q: 1\n  namespace: A\n", "config.yaml:3:14: /Manager/Controller.namespace: want the name of a namespace"},
		"Documents":   {"a: 1\n---\nb: 2\n", "there is a second document, want one"},
		"Merge":       {"/Manager: &m {}\n/Manager/Controller:\n  <<: *m\n", "config.yaml:3:3: /Manager/Controller.<<: unknown key"},
		"SecretInGui": {"/Manager:\n  /GuiHttpServer: {secret: hunter2\n", "this is no YAML"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("config.yaml", []byte(tc.text))
			if _, ok := errors.AsType[render.Faults](err); !ok {
				t.Fatalf("the error is %v, want faults", err)
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("it says:\n%v\nwant:\n%s", err, tc.want)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("it tells a secret: %v", err)
			}
		})
	}
}

// What can be read is, even if the rest is bad: a manager has to know where it is.
func TestFaultBesideNamespace(t *testing.T) {
	got, err := Parse("config.yaml", []byte("/Manager/Controller:\n  namespace: vms\n  nonsense: 1\n"))
	if err == nil || got.Namespace != "vms" {
		t.Errorf("the namespace is %q, the error %v", got.Namespace, err)
	}
}

// Whatever the file holds, reading it ends, and what comes out is CUE.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"", "/Manager/Controller/Reconciler:\n  loadBalancerService: {labels: {a: \"1\"}}\n", "a: &a [*a]", "{\"/Manager\": {\"/Controller\": {namespace: x}}}", "? [a]: b\n", "\"/\": 1\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, _ := Parse("config.yaml", []byte(text))
		if _, err := format.Source([]byte(got.Settings)); err != nil {
			t.Errorf("the settings are no CUE: %v\n%s", err, got.Settings)
		}
	})
}
