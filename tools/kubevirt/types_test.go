package kubevirt_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// Every VirtualMachine of KubeVirt in the goldens of Machines is one that KubeVirt's types take, without a field that they do not have.
func TestGoldensAreKubeVirts(t *testing.T) {
	files, err := filepath.Glob("../../testdata/script/machine-*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	found := 0
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, doc := range manifests(string(text)) {
			if !strings.Contains(doc, "\napiVersion: kubevirt.io/v1\nkind: VirtualMachine\n") {
				continue
			}
			found++
			var vm kubevirtv1.VirtualMachine
			if err := yaml.UnmarshalStrict([]byte(doc), &vm); err != nil {
				t.Errorf("%s: %v\n%s", filepath.Base(name), err, doc)
				continue
			}
			if vm.Spec.Template == nil || len(vm.Spec.Template.Spec.Networks) == 0 || vm.Spec.Template.Spec.Domain.CPU == nil {
				t.Errorf("%s: a VirtualMachine without a network or CPUs:\n%s", filepath.Base(name), doc)
			}
			if (vm.Spec.Running == nil) == (vm.Spec.RunStrategy == nil) {
				t.Errorf("%s: want exactly one of running and runStrategy:\n%s", filepath.Base(name), doc)
			}
		}
	}
	if found < 20 {
		t.Errorf("there are %d VirtualMachines in the goldens, want those of all scripts", found)
	}
}

// manifests are the documents of a script's goldens, each with a line break before it.
func manifests(script string) []string {
	var out []string
	for _, section := range strings.Split(script, "\n-- ")[1:] {
		name, body, _ := strings.Cut(section, " --\n")
		if !strings.HasSuffix(name, ".out") {
			continue
		}
		for _, doc := range strings.Split(body, "\n---\n") {
			out = append(out, "\n"+strings.TrimSuffix(doc, "\n")+"\n")
		}
	}
	return out
}
