package cuvee_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	psaapi "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	kjson "sigs.k8s.io/json"

	"github.com/cuvee-vm/cuvee"
	"github.com/cuvee-vm/cuvee/render"
)

// sites are settings that change much of what VMs become.
var sites = map[string]string{
	"BuiltIn":     "",
	"Balanced":    `settings: loadBalancerService: {enabled: true, annotations: "example.com/pool": "vms"}`,
	"HostNetwork": `settings: network: hostNetwork: true`,
	"HostPath":    `settings: kvm: access: "hostPath"`,
	"Emulated":    `settings: kvm: access: "none"`,
	"NoImages":    `settings: imageRepository: {enabled: false, confined: false}`,
	"Placed": `settings: pod: {nodeSelector: vms: "yes", labels: team: "green", annotations: note: "x"}
pod: tolerations: vms: {key: "vms", operator: "Exists"}`,
}

// TestManifestsAreStrict decodes every object of every VM of testdata/vm into the Kubernetes type of its kind, where an
// unknown field and a field that is given twice are errors.
func TestManifestsAreStrict(t *testing.T) {
	kinds := map[string]int{}
	eachRender(t, func(t *testing.T, _ string, r *render.Result) {
		for _, o := range r.Objects {
			decodeStrictly(t, o, kinds)
		}
	})
	for _, kind := range []string{"ConfigMap", "PersistentVolumeClaim", "Secret", "Service", "StatefulSet"} {
		if kinds[kind] == 0 {
			t.Errorf("no VM made a %s", kind)
		}
	}
}

func decodeStrictly(t *testing.T, o render.Object, kinds map[string]int) {
	t.Helper()
	var meta metav1.TypeMeta
	if err := kjson.UnmarshalCaseSensitivePreserveInts(o.JSON, &meta); err != nil {
		t.Fatalf("%s: %v", o.Key, err)
	}
	into, ok := map[string]runtime.Object{
		"v1/ConfigMap":             &corev1.ConfigMap{},
		"v1/PersistentVolumeClaim": &corev1.PersistentVolumeClaim{},
		"v1/Secret":                &corev1.Secret{},
		"v1/Service":               &corev1.Service{},
		"apps/v1/StatefulSet":      &appsv1.StatefulSet{},
	}[meta.APIVersion+"/"+meta.Kind]
	if !ok {
		t.Fatalf("%s: a %s %s is not expected", o.Key, meta.APIVersion, meta.Kind)
	}
	kinds[meta.Kind]++
	strict, err := kjson.UnmarshalStrict(o.JSON, into)
	if err != nil {
		t.Fatalf("%s: %v", o.Key, err)
	}
	for _, err := range strict {
		t.Errorf("%s: %v", o.Key, err)
	}
}

// TestClaimsBeforePod holds the StatefulSet of a new VM that runs behind the VM's claims: the scheduler would look at the pod too early.
func TestClaimsBeforePod(t *testing.T) {
	runs := 0
	eachRender(t, func(t *testing.T, _ string, r *render.Result) {
		i := slices.IndexFunc(r.Objects, func(o render.Object) bool { return o.Key == "statefulSet" })
		if i < 0 || !bytes.Contains(r.Objects[i].JSON, []byte(`"replicas":1`)) {
			return
		}
		runs++
		for _, o := range r.Objects {
			if bytes.Contains(o.JSON, []byte(`"kind":"PersistentVolumeClaim"`)) && o.Policy.Wave >= r.Objects[i].Policy.Wave {
				t.Errorf("%s is of the wave %d, the StatefulSet of %d", o.Key, o.Policy.Wave, r.Objects[i].Policy.Wave)
			}
		}
	})
	if runs == 0 {
		t.Error("no VM runs")
	}
}

// TestPodSecurity holds the pods to the Pod Security Standards, with the code that an API server checks them with. Every
// pod passes the level restricted, but for what a tap interface or a site's setting costs.
func TestPodSecurity(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	restricted := psaapi.LevelVersion{Level: psaapi.LevelRestricted, Version: psaapi.LatestVersion()}
	pods := 0
	eachRender(t, func(t *testing.T, site string, r *render.Result) {
		pod := podOf(t, r)
		pods++
		var got []string
		for _, result := range evaluator.EvaluatePod(restricted, &pod.ObjectMeta, &pod.Spec) {
			if !result.Allowed {
				got = append(got, result.ForbiddenReason)
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(privileges(r, site), got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("violations of the level restricted (-want +got):\n%s", diff)
		}
	})
	if pods == 0 {
		t.Error("no VM made a pod")
	}
}

// privileges are the violations that come with what a VM or a site asks for.
func privileges(r *render.Result, site string) []string {
	var config string
	for _, o := range r.Objects {
		if o.Key == "configMap" {
			config = string(o.JSON)
		}
	}
	tap := strings.Contains(config, `\"taps\": [`)
	display := strings.Contains(config, `\"option\":\"spice\"`)
	var out []string
	add := func(reasons ...string) { out = append(out, reasons...) }
	if tap || site == "HostNetwork" {
		add("host namespaces")
		if display {
			add("hostPort")
		}
	}
	if tap {
		add("runAsNonRoot != true", "runAsUser=0")
		if site != "HostPath" {
			add("unrestricted capabilities")
		}
	}
	if site == "HostPath" {
		add("privileged", "allowPrivilegeEscalation != false", "unrestricted capabilities", "restricted volume types")
	}
	slices.Sort(out)
	return out
}

// podOf is the pod that the StatefulSet makes, as far as an API server fills it in: with the node's network every
// port of a container is one of the node's.
func podOf(t *testing.T, r *render.Result) corev1.PodTemplateSpec {
	t.Helper()
	for _, o := range r.Objects {
		if o.Key != "statefulSet" {
			continue
		}
		var set appsv1.StatefulSet
		if err := json.Unmarshal(o.JSON, &set); err != nil {
			t.Fatal(err)
		}
		pod := set.Spec.Template
		for i := range pod.Spec.Containers {
			for j := range pod.Spec.Containers[i].Ports {
				if port := &pod.Spec.Containers[i].Ports[j]; pod.Spec.HostNetwork {
					port.HostPort = port.ContainerPort
				}
			}
		}
		return pod
	}
	t.Fatal("no StatefulSet")
	return corev1.PodTemplateSpec{}
}

// eachRender renders every VM of testdata/vm with every site, in a subtest each.
func eachRender(t *testing.T, do func(t *testing.T, site string, r *render.Result)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "vm", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no VMs in testdata/vm (%v)", err)
	}
	for site, text := range sites {
		src := render.Source{Module: cuvee.Files, Package: "templates/vm"}
		if text != "" {
			src.Site, src.SiteName = fstest.MapFS{"site.cue": {Data: []byte("package vm\n" + text)}}, site
		}
		set, err := render.Load(src)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			t.Run(site+"/"+filepath.Base(file), func(t *testing.T) {
				data, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				docs, err := render.Decode(file, data)
				if err != nil {
					t.Fatal(err)
				}
				r, err := set.Render(render.Input{Document: docs[0]})
				if err != nil {
					t.Fatal(err)
				}
				do(t, site, r)
			})
		}
	}
}
