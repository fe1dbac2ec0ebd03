package render_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/cuvee-vm/cuvee/render"
)

// BenchmarkRenderFull renders a VM with much of what a VM can have, under a new name each time. "make bench-render" has
// the figures that count; this is for profiles:
//
//	go test ./render -run '^$' -bench RenderFull -memprofile mem.out -memprofilerate 1024
func BenchmarkRenderFull(b *testing.B) { benchmarkRender(b, "full") }

// BenchmarkRenderMin renders a VM with one disk.
func BenchmarkRenderMin(b *testing.B) { benchmarkRender(b, "min") }

func benchmarkRender(b *testing.B, name string) {
	set, err := render.Load(render.Source{Module: os.DirFS(".."), Package: "templates/vm"})
	if err != nil {
		b.Fatal(err)
	}
	file := filepath.Join("..", "bench", "testdata", name+".yaml")
	data, err := os.ReadFile(file)
	if err != nil {
		b.Fatal(err)
	}
	docs, err := render.Decode(file, data)
	if err != nil {
		b.Fatal(err)
	}
	vm := docs[0]
	metadata, ok := vm.Object["metadata"].(map[string]any)
	if !ok {
		b.Fatalf("%s has no metadata", file)
	}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		vm.Object = maps.Clone(vm.Object)
		metadata = maps.Clone(metadata)
		metadata["name"] = fmt.Sprintf("vm-%d", n)
		vm.Object["metadata"] = metadata
		if _, err := set.Render(render.Input{Document: vm}); err != nil {
			b.Fatal(err)
		}
	}
}
