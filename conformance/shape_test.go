package conformance

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	kjson "sigs.k8s.io/json"

	"github.com/cuvee-vm/cuvee/render"
	"github.com/cuvee-vm/cuvee/runner"
)

// shape is what a render is made of, without the values: the kinds of objects with the names of their fields, the
// options of QEMU with their keys, the kinds of devices and backends.
type shape map[string]bool

// shapeOf returns the shape of a result.
func shapeOf(t testing.TB, r *render.Result) shape {
	t.Helper()
	s := make(shape)
	for _, o := range r.Objects {
		var object map[string]any
		if err := json.Unmarshal(o.JSON, &object); err != nil {
			t.Fatal(err)
		}
		s.fields(fmt.Sprint(object["kind"]), object)
		if o.Key == "configMap" {
			s.config(t, object)
		}
	}
	for name := range r.Conditions {
		s["condition "+name] = true
	}
	return s
}

// open are fields whose own fields are free: names that users choose.
var open = regexp.MustCompile(`\.(labels|annotations|matchLabels|nodeSelector|limits|requests)$`)

// fields adds the paths of all fields.
func (s shape) fields(path string, v any) {
	s[path] = true
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			if open.MatchString(path) {
				k = "*"
			}
			s.fields(path+"."+k, x)
		}
	case []any:
		for _, x := range v {
			s.fields(path+"[]", x)
		}
	}
}

// config adds the shape of config.json.
func (s shape) config(t testing.TB, configMap map[string]any) {
	t.Helper()
	data, _ := configMap["data"].(map[string]any)
	text, _ := data["config.json"].(string)
	var config map[string]any
	if err := json.Unmarshal([]byte(text), &config); err != nil {
		t.Fatalf("config.json: %v\n%s", err, text)
	}
	boot, _ := config["boot"].(map[string]any)
	args, _ := boot["args"].([]any)
	delete(boot, "args")
	parts := make(shape)
	parts.fields("config", config)
	for path := range parts {
		s[withoutNumbers(path)] = true
	}
	for _, a := range args {
		s.argument(t, a)
	}
}

// numbered matches the ids that end with a position.
var numbered = regexp.MustCompile(`\b(disk|cd|net|usbRedirect|port|io)[0-9]+`)

func withoutNumbers(text string) string { return numbered.ReplaceAllString(text, "${1}N") }

// argument adds an option of QEMU with its keys.
func (s shape) argument(t testing.TB, v any) {
	t.Helper()
	a, ok := v.(map[string]any)
	if !ok {
		t.Fatalf("boot.args has %v", v)
	}
	option := fmt.Sprint("-", a["option"])
	s.fields(option, kinds(option, a))
}

// kinds returns an option's argument with those values replaced by names of fields that say what is made: a driver, a
// backend, a reference.
func kinds(option string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			switch k {
			case "driver", "type", "backend", "qom-type", "resolve", "fd", "option", "property":
				x = map[string]any{withoutNumbers(fmt.Sprint(x)): nil}
			case "keys":
				if keys, ok := x.(map[string]any); ok && option == "-cpu" {
					x = features(keys)
				}
			}
			out[k] = kinds(option, x)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = kinds(option, x)
		}
		return out
	}
	return nil
}

var feature = regexp.MustCompile(`^[A-Za-z0-9][-A-Za-z0-9_.]*$`)

// features leaves only those names of CPU features that are none.
func features(keys map[string]any) map[string]any {
	out := map[string]any{"feature": nil}
	for k := range keys {
		if !feature.MatchString(k) {
			out[k] = nil
		}
	}
	return out
}

// allowed is the shape of all samples together: all that a template writes.
func allowed(t testing.TB, samples map[string]sample) shape {
	t.Helper()
	all := make(shape)
	for _, name := range sorted(samples) {
		r, err := templates(t).RenderObserving(render.Input{Document: samples[name].doc, Engine: engine}, samples[name].cluster)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		maps.Copy(all, shapeOf(t, r))
	}
	return all
}

// beyond lists what a shape has and another has not.
func (s shape) beyond(allowed shape) []string {
	var found []string
	for _, path := range sorted(s) {
		if !allowed[path] {
			found = append(found, path)
		}
	}
	return found
}

// checkArguments reads the command line as QEMU does: the keys that it finds are those that the config has, no more.
func checkArguments(t testing.TB, c *runner.Config) {
	t.Helper()
	argv, err := runner.CommandLine(c.Boot, runner.Placeholders(c))
	if err != nil {
		t.Errorf("command line: %v", err)
		return
	}
	for _, a := range c.Boot.Args {
		if len(argv) == 0 || argv[0] != "-"+a.Option {
			t.Errorf("command line goes on with %q, want -%s", argv, a.Option)
			return
		}
		argv = argv[1:]
		if a.JSON == nil && a.Value == nil && a.Keys == nil {
			continue
		}
		text := argv[0]
		argv = argv[1:]
		if a.JSON != nil {
			if !json.Valid([]byte(text)) {
				t.Errorf("-%s has no JSON: %q", a.Option, text)
			}
			continue
		}
		if got, want := keysOf(a, text), sorted(a.Keys); !slices.Equal(got, want) {
			t.Errorf("-%s has the keys %q, want %q: %q", a.Option, got, want, text)
		}
	}
	if len(argv) > 0 {
		t.Errorf("command line has more than the config: %q", argv)
	}
}

// keysOf returns the keys of an argument, sorted: parts are between commas that are not doubled.
func keysOf(a runner.Arg, text string) []string {
	var keys []string
	parts := strings.Split(strings.ReplaceAll(text, ",,", "\x01"), ",")
	if a.Value != nil {
		if strings.Contains(parts[0], "=") && a.Option != "uuid" {
			keys = append(keys, parts[0])
		}
		parts = parts[1:]
	}
	for _, p := range parts {
		key, _, _ := strings.Cut(p, "=")
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// checkTypes decodes each object into its Kubernetes type, which has to have a place for everything.
func checkTypes(t testing.TB, r *render.Result) {
	t.Helper()
	for _, o := range r.Objects {
		var kind struct{ Kind string }
		if err := json.Unmarshal(o.JSON, &kind); err != nil {
			t.Fatal(err)
		}
		to := map[string]any{
			"StatefulSet": &appsv1.StatefulSet{}, "ConfigMap": &corev1.ConfigMap{}, "Secret": &corev1.Secret{},
			"Service": &corev1.Service{}, "PersistentVolumeClaim": &corev1.PersistentVolumeClaim{},
		}[kind.Kind]
		if to == nil {
			t.Errorf("%s is a %q, which templates do not make", o.Key, kind.Kind)
			continue
		}
		strict, err := kjson.UnmarshalStrict(o.JSON, to)
		if err != nil || len(strict) > 0 {
			t.Errorf("%s is no %s: %v %v", o.Key, kind.Kind, err, strict)
		}
	}
}

// within matches a path in which a disk's name is one element.
var (
	mountPath = regexp.MustCompile(`^(/etc/opt/vmrunner|/var/local/vm-data|/var/local/vmop-image-repository|/run/cuvee|/tmp|/var/local/vm-disks/[a-z0-9][-a-z0-9]*)$`)
	// listenAddress matches the addresses of the metrics and of the consoles.
	listenAddress = regexp.MustCompile(`^:[1-9][0-9]{0,4}$`)
	devicePath    = regexp.MustCompile(`^/dev/[a-z0-9][-a-z0-9]*$`)
)

// checkPod compares the pod's privileges with what the VM needs: none, and for a bridge of the node its network.
func checkPod(t testing.TB, r *render.Result, bridged bool) {
	t.Helper()
	pod := statefulSet(t, r).Spec.Template.Spec
	if len(pod.Containers) != 1 || len(pod.InitContainers)+len(pod.EphemeralContainers) != 0 {
		t.Errorf("pod has %d containers, want one", len(pod.Containers)+len(pod.InitContainers))
		return
	}
	c := pod.Containers[0]
	if pod.HostPID || pod.HostIPC || pod.HostNetwork != bridged {
		t.Errorf("pod has the node's processes (%v), IPC (%v), network (%v)", pod.HostPID, pod.HostIPC, pod.HostNetwork)
	}
	if *pod.SecurityContext.RunAsNonRoot == bridged || (*pod.SecurityContext.RunAsUser == 0) != bridged {
		t.Errorf("pod's user is %d", *pod.SecurityContext.RunAsUser)
	}
	want := []corev1.Capability(nil)
	if bridged {
		want = []corev1.Capability{"NET_ADMIN", "SETUID", "SETGID", "CHOWN", "DAC_OVERRIDE", "KILL"}
	}
	security := c.SecurityContext
	if security.Privileged != nil || *security.AllowPrivilegeEscalation || !slices.Equal(security.Capabilities.Add, want) || !slices.Equal(security.Capabilities.Drop, []corev1.Capability{"ALL"}) {
		t.Errorf("container has the privileges %+v %+v", security, security.Capabilities)
	}
	if len(c.Command)+len(c.Args)+len(c.EnvFrom) > 0 || c.Lifecycle != nil {
		t.Errorf("container has a command, arguments or variables: %+v", c)
	}
	for _, e := range c.Env {
		ours := e.Name == "CUVEE_CONSOLE_DIR" && e.Value == "/etc/opt/vmrunner/console"
		if e.Name == "CUVEE_LISTEN" || e.Name == "CUVEE_CONSOLE_LISTEN" {
			ours = listenAddress.MatchString(e.Value)
		}
		downward := strings.HasPrefix(e.Name, "POD_") && e.ValueFrom != nil && e.ValueFrom.FieldRef != nil
		if !ours && !downward {
			t.Errorf("container has the variable %+v", e)
		}
	}
	for _, v := range pod.Volumes {
		if v.Projected == nil && v.PersistentVolumeClaim == nil && v.EmptyDir == nil {
			t.Errorf("volume %s is of another kind than projected, claim, emptyDir", v.Name)
		}
	}
	for _, m := range c.VolumeMounts {
		if !mountPath.MatchString(m.MountPath) {
			t.Errorf("volume %s is mounted at %s", m.Name, m.MountPath)
		}
	}
	for _, d := range c.VolumeDevices {
		if !devicePath.MatchString(d.DevicePath) {
			t.Errorf("device %s is at %s", d.Name, d.DevicePath)
		}
	}
}
