package helm

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/cmd"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/cuvee-vm/cuvee/controller/testserver"
)

const (
	chart = "../../kustomize/helm"
	// patience is how long a command may take, on a machine with other work.
	patience = 3 * time.Minute
	// asHelm makes the test's own program Helm.
	asHelm = "CUVEE_TEST_RUN_AS_HELM"
)

var server *testserver.Server

func TestMain(m *testing.M) {
	if os.Getenv(asHelm) != "" {
		os.Exit(runHelm(os.Args[1:]))
	}
	os.Exit(testserver.Main(m, &server))
}

// runHelm is Helm's own main function.
func runHelm(args []string) int {
	c, err := cmd.NewRootCmd(os.Stdout, args, cmd.SetupLogging)
	if err != nil || c.Execute() != nil {
		return 1
	}
	return 0
}

// helm runs a command of Helm, and returns what it writes.
func helm(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	home := t.TempDir()
	c := exec.CommandContext(ctx, self, args...)
	c.Env = append(os.Environ(), asHelm+"=1", "HOME="+home, "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	var out, problem bytes.Buffer
	c.Stdout, c.Stderr = &out, &problem
	err = c.Run()
	return out.String(), problem.String(), err
}

// must is helm that succeeds.
func must(t *testing.T, args ...string) string {
	t.Helper()
	stdout, stderr, err := helm(t, args...)
	if err != nil {
		t.Fatalf("helm %s: %v\n%s%s", strings.Join(args, " "), err, stdout, stderr)
	}
	return stdout
}

// objects are those that a release has with these values, by kind and name. The values are YAML.
func objects(t *testing.T, values string) map[string]*unstructured.Unstructured {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	out := map[string]*unstructured.Unstructured{}
	for _, text := range strings.Split(must(t, "template", "machines", chart, "--namespace", "vms", "--values", file), "\n---\n") {
		asJSON, err := yaml.YAMLToJSONStrict([]byte(strings.TrimPrefix(text, "---\n")))
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(asJSON); err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		out[id(u)] = u
	}
	return out
}

func id(u *unstructured.Unstructured) string { return u.GetKind() + " " + u.GetName() }
