package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/cuvee-vm/cuvee"
	"github.com/cuvee-vm/cuvee/render"
)

// The examples of docs/disks.md are complete: they are valid, and render.
func TestExamplesOfDisks(t *testing.T) {
	text, err := os.ReadFile("../../docs/disks.md")
	if err != nil {
		t.Fatal(err)
	}
	set, err := render.Load(render.Source{Module: cuvee.Files, Package: vmTemplates})
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		docs, err := render.Decode("disks.md", []byte(block[1]))
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range docs {
			if d.Object["kind"] != "VirtualMachine" {
				continue
			}
			seen++
			r, err := set.Render(render.Input{Document: d})
			if err != nil {
				t.Errorf("%v\n%s", err, block[1])
				continue
			}
			if f := r.Conditions["FieldsEffective"]; f.Status == "False" {
				t.Errorf("%s\n%s", f.Message, block[1])
			}
		}
	}
	if ways := strings.Count(string(text), "\n| ["); seen < ways || ways != 5 {
		t.Errorf("%d examples of VMs for %d ways", seen, ways)
	}
}
