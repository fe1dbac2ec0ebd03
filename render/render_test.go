package render_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"regexp"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/cuvee-vm/cuvee"
	"github.com/cuvee-vm/cuvee/render"
)

const testVM = `
apiVersion: vmoperator.jdrupes.org/v1
kind: VirtualMachine
metadata: {name: %s, namespace: demo}
spec:
  cloudInit: {userData: {packages: [curl]}}
  vm:
    state: Running
    maximumCpus: 2
    maximumRam: 1Gi
    networks: [{user: {}}]
    disks:
    - volumeClaimTemplate: {metadata: {name: system}, spec: {resources: {requests: {storage: 1Gi}}}}
`

func load(t testing.TB, src render.Source) *render.Set {
	t.Helper()
	if src.Module == nil {
		src.Module = cuvee.Files
	}
	if src.Package == "" {
		src.Package = "templates/vm"
	}
	set, err := render.Load(src)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func document(t testing.TB, text string) render.Document {
	t.Helper()
	docs, err := render.Decode("vm.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(docs) != 1 {
		t.Fatalf("%d documents, want 1", len(docs))
	}
	return docs[0]
}

func manifests(t testing.TB, r *render.Result) string {
	t.Helper()
	var b bytes.Buffer
	for _, o := range r.Objects {
		y, err := o.YAML()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "--- %s %+v\n%s", o.Key, o.Policy, y)
	}
	return b.String()
}

func TestRenderConcurrently(t *testing.T) {
	set := load(t, render.Source{})
	want := map[string]string{}
	for i := range 4 {
		name := fmt.Sprintf("vm-%d", i)
		r, err := set.Render(render.Input{Document: document(t, fmt.Sprintf(testVM, name))})
		if err != nil {
			t.Fatal(err)
		}
		want[name] = manifests(t, r)
	}
	// A set of its own, so that its first evaluation is concurrent, too.
	set = load(t, render.Source{})
	var wg sync.WaitGroup
	for i := range 16 {
		name := fmt.Sprintf("vm-%d", i%4)
		wg.Go(func() {
			r, err := set.Render(render.Input{Document: document(t, fmt.Sprintf(testVM, name))})
			if err != nil {
				t.Error(err)
				return
			}
			if diff := cmp.Diff(want[name], manifests(t, r)); diff != "" {
				t.Errorf("%s differs from a render by itself (-alone +concurrent):\n%s", name, diff)
			}
		})
	}
	wg.Wait()
}

func TestEngineReachesTheResult(t *testing.T) {
	set := load(t, render.Source{})
	in := render.Input{
		Document: document(t, fmt.Sprintf(testVM, "web")),
		Engine:   &render.Engine{ResourceVersion: "4711", Generation: 12, Random: "secret"},
	}
	r, err := set.Render(in)
	if err != nil {
		t.Fatal(err)
	}
	text := manifests(t, r)
	derived := func(purpose string) string {
		sum := sha256.Sum256([]byte(purpose + "/secret"))
		return base64.StdEncoding.EncodeToString([]byte(hex.EncodeToString(sum[:16])))
	}
	for _, want := range []string{
		"cuvee-vm.github.io/instance-id: v4711", "display-password: " + derived("display-password"), "token: " + derived("console-token"), `"generation": 12,`,
	} {
		if !bytes.Contains([]byte(text), []byte(want)) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
}

// An object that carries what the API server adds renders like the file it was applied from.
func TestServerFieldsDoNotMatter(t *testing.T) {
	set := load(t, render.Source{})
	plain := document(t, fmt.Sprintf(testVM, "web"))
	live := document(t, fmt.Sprintf(testVM, "web"))
	metadata := live.Object["metadata"].(map[string]any)
	metadata["managedFields"] = []any{map[string]any{"manager": "kubectl", "fieldsV1": map[string]any{"f:spec": map[string]any{}}}}
	metadata["resourceVersion"] = "12"
	metadata["generation"] = int64(3)
	metadata["annotations"] = map[string]any{"kubectl.kubernetes.io/last-applied-configuration": "{}"}
	live.Object["status"] = map[string]any{"cpus": int64(2)}
	var got []string
	for _, d := range []render.Document{plain, live} {
		r, err := set.Render(render.Input{Document: d})
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, manifests(t, r))
	}
	if diff := cmp.Diff(got[0], got[1]); diff != "" {
		t.Errorf("file and live object render differently (-file +live):\n%s", diff)
	}
}

func TestMemo(t *testing.T) {
	memo := render.NewMemo(load(t, render.Source{}))
	in := render.Input{Document: document(t, fmt.Sprintf(testVM, "web"))}
	render1 := func(in render.Input) *render.Result {
		t.Helper()
		r, err := memo.Render(in)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	first := render1(in)
	if again := render1(in); again != first {
		t.Error("the same input was rendered again")
	}
	touched := in
	touched.Engine = &render.Engine{ResourceVersion: "2", Now: "2026-01-01T00:00:00Z"}
	if again := render1(touched); again != first {
		t.Error("a new resourceVersion and time alone made a new render")
	}
	observed := in
	observed.Observed = map[string][]map[string]any{"pod": {{"metadata": map[string]any{"name": "web-0"}, "spec": map[string]any{"nodeName": "n1"}}}}
	second := render1(observed)
	if second == first || !bytes.Contains(second.Status, []byte(`"nodeName":"n1"`)) {
		t.Errorf("what was observed did not reach the status: %s", second.Status)
	}
	memo.Forget("demo", "web")
	if again := render1(observed); again == second {
		t.Error("a forgotten result was used")
	}
}

func TestSite(t *testing.T) {
	site := fstest.MapFS{
		"lab.cue":     {Data: []byte("package vm\n\nsettings: vm: maximumCpus: 3\n")},
		"machine.cue": {Data: []byte("package machine\n\nsettings: nonsense: true\n")},
		"readme.txt":  {Data: []byte("not CUE")},
	}
	plain, lab := load(t, render.Source{}), load(t, render.Source{Site: site, SiteName: "lab"})
	if plain.Revision == lab.Revision {
		t.Error("a site's files do not change the revision")
	}
	if again := load(t, render.Source{Site: site, SiteName: "elsewhere"}); again.Revision != lab.Revision {
		t.Error("the revision depends on the name of the site's directory")
	}
	d := document(t, "{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualMachine, metadata: {name: a}, spec: {vm: {}}}")
	r, err := lab.Render(render.Input{Document: d})
	if err != nil {
		t.Fatal(err)
	}
	if text := manifests(t, r); !bytes.Contains([]byte(text), []byte(`"currentCpus": 3`)) {
		t.Errorf("the site's default did not reach the config:\n%s", text)
	}
}

func TestSiteRefused(t *testing.T) {
	cases := map[string]struct {
		reason string
		file   string
		want   string
	}{
		"UnknownSetting": {
			"a setting that does not exist is a mistake",
			"package vm\nsettings: vm: maximumCpu: 4\n",
			`check templates: lab/a.cue:2:15: settings.vm.maximumCpu: field not allowed`,
		},
		"WrongValue": {
			"the alternatives are named once, not one error each",
			"package vm\nsettings: vm: firmware: \"efi\"\n",
			`check templates: lab/a.cue:2:25: settings.vm.firmware: "efi" is not valid, want "bios", "secure", "secure-4m", "uefi" or "uefi-4m"`,
		},
		"Syntax": {
			"the place is in the site's file",
			"package vm\nsettings: {\n",
			`load templates: lab/a.cue:2:13: expected '}', found 'EOF'`,
		},
		"NoPackage": {
			"a file that is for no kind at all would silently do nothing",
			"settings: vm: maximumCpus: 4\n",
			`read site files: lab/a.cue has no package clause, want: package vm`,
		},
		"OtherPackage": {
			"files that are for no kind that is loaded would silently do nothing",
			"package vms\n",
			`read site files: no *.cue file of package vm in lab`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := render.Load(render.Source{
				Module: cuvee.Files, Package: "templates/vm", SiteName: "lab",
				Site: fstest.MapFS{"a.cue": {Data: []byte(tc.file)}},
			})
			if err == nil {
				t.Fatalf("%s: no error", tc.reason)
			}
			if diff := cmp.Diff(tc.want, err.Error()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// Without a cluster there is no bridge, and no privilege to use one.
func TestLocalTapIsUserNetwork(t *testing.T) {
	set := load(t, render.Source{Package: "templates/vm/local"})
	d := document(t, `{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualMachine, metadata: {name: a}, spec: {vm: {networks: [{tap: {bridge: br7, mac: "02:00:00:00:00:01"}}]}}}`)
	r, err := set.Render(render.Input{Document: d})
	if err != nil {
		t.Fatal(err)
	}
	text := manifests(t, r)
	for _, want := range []string{`{"json":{"id":"net0","type":"user"},"option":"netdev"}`, `"mac":"02:00:00:00:00:01"`} {
		if !bytes.Contains([]byte(text), []byte(want)) {
			t.Errorf("no %s in:\n%s", want, text)
		}
	}
	for _, no := range []string{`"taps"`, "NET_ADMIN", "hostNetwork"} {
		if bytes.Contains([]byte(text), []byte(no)) {
			t.Errorf("%s in:\n%s", no, text)
		}
	}
}

// Every interface has an address of its own, which stays.
func TestMACsAreDistinctAndStable(t *testing.T) {
	set := load(t, render.Source{})
	seen := map[string]string{}
	mac := regexp.MustCompile(`"mac":"([0-9a-f:]{17})","netdev"`)
	for range 2 {
		for _, namespace := range []string{"a", "b", "a-b"} {
			for _, name := range []string{"a", "b", "b-a"} {
				d := document(t, fmt.Sprintf(`{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualMachine, metadata: {name: %s, namespace: %s}, spec: {vm: {networks: [{user: {}}, {tap: {}}, {user: {}}]}}}`, name, namespace))
				r, err := set.Render(render.Input{Document: d})
				if err != nil {
					t.Fatal(err)
				}
				for i, m := range mac.FindAllStringSubmatch(manifests(t, r), -1) {
					whose := fmt.Sprintf("%s/%s/%d", namespace, name, i)
					if other, ok := seen[m[1]]; ok && other != whose {
						t.Errorf("%s and %s both have %s", whose, other, m[1])
					}
					seen[m[1]] = whose
				}
			}
		}
	}
	if want := 3 * 3 * 3; len(seen) != want {
		t.Errorf("%d addresses of two renders, want %d", len(seen), want)
	}
}
