package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cuvee-vm/cuvee/controller/apiserver"
	"github.com/cuvee-vm/cuvee/controller/keypair"
	"github.com/cuvee-vm/cuvee/controller/testserver"
	"github.com/cuvee-vm/cuvee/render"
)

// create measures the creation of VMs by the manager, by a loop that creates them, too, and applies the same objects, and by one that
// also renders each. They take turns in being first.
func (b *bench) create(ctx context.Context) error {
	ways := []func(context.Context) (time.Duration, error){
		b.createManaged,
		func(ctx context.Context) (time.Duration, error) { return b.createBare(ctx, false) },
		func(ctx context.Context) (time.Duration, error) { return b.createBare(ctx, true) },
	}
	rates := make([][]float64, len(ways))
	var ratios, floors []float64
	for i := range b.rounds {
		for j := range ways {
			which := (i + j) % len(ways)
			took, err := ways[which](ctx)
			if err != nil {
				return err
			}
			rates[which] = append(rates[which], float64(b.batch)/took.Seconds())
		}
		ratios, floors = append(ratios, rates[0][i]/rates[1][i]), append(floors, rates[2][i]/rates[1][i])
	}
	fmt.Printf("figure controller.create.vs_bare %.3f x\n", median(ratios))
	fmt.Printf("figure controller.create.rendering.vs_bare %.3f x\n", median(floors))
	fmt.Printf("figure controller.create.per_s %.1f VM/s\n", median(rates[0]))
	fmt.Printf("figure controller.create.bare.per_s %.1f VM/s\n", median(rates[1]))
	return nil
}

// createManaged makes a batch of VMs, and returns the time until the last object was applied.
func (b *bench) createManaged(ctx context.Context) (time.Duration, error) {
	start := time.Now()
	end, err := b.add(ctx, b.batch)
	if err != nil {
		return 0, err
	}
	// What comes after, such as the rest of the status, must not be in the way of the next one.
	return end.Sub(start), b.settle(ctx)
}

// createBare does the same without a controller: the objects are rendered before, and once more for nothing if the time of that is to be
// part of it.
func (b *bench) createBare(ctx context.Context, rendering bool) (time.Duration, error) {
	type vm struct {
		ref     apiserver.Ref
		object  map[string]any
		body    []byte
		objects []prepared
	}
	var vms []vm
	for range b.batch {
		b.elsewhere++
		v := vm{ref: machine(bare, b.elsewhere)}
		v.object = manifest(v.ref)
		var err error
		if v.body, err = json.Marshal(v.object); err != nil {
			return 0, err
		}
		if v.objects, err = b.prepare(v.object); err != nil {
			return 0, err
		}
		if len(v.objects) != b.perVM {
			return 0, fmt.Errorf("%d objects of a VM are prepared, and the manager makes %d", len(v.objects), b.perVM)
		}
		vms = append(vms, v)
	}
	start := time.Now()
	err := each(b.batch, workers, func(i int) error {
		if _, err := b.api.Create(ctx, vms[i].ref, vms[i].body, "bench", false); err != nil {
			return err
		}
		if rendering {
			if _, err := b.render(vms[i].object); err != nil {
				return err
			}
		}
		for _, o := range vms[i].objects {
			if err := o.write(ctx, b.api, b.pkg.Owner); err != nil {
				return fmt.Errorf("%s: %w", o.ref, err)
			}
		}
		return nil
	})
	return time.Since(start), err
}

// prepared is an object as the manager writes it.
type prepared struct {
	ref    apiserver.Ref
	body   []byte
	create bool
}

func (p prepared) write(ctx context.Context, api *apiserver.Client, owner string) error {
	if p.create {
		_, err := api.Create(ctx, p.ref, p.body, owner, false)
		return err
	}
	_, err := api.Apply(ctx, p.ref, p.body, apiserver.Apply{Manager: owner})
	return err
}

// digits stand for random ones.
const digits = "0123456789abcdef0123456789abcdef"

func (b *bench) render(object map[string]any) (*render.Result, error) {
	return b.pkg.Set.Render(render.Input{Document: render.Document{Object: object}, Engine: &render.Engine{Generation: 1, Random: digits}})
}

// prepare renders a VM, with as much on each object as the manager writes on it.
func (b *bench) prepare(object map[string]any) ([]prepared, error) {
	r, err := b.render(object)
	if err != nil {
		return nil, err
	}
	var out []prepared
	for _, o := range r.Objects {
		var body map[string]any
		if err := json.Unmarshal(o.JSON, &body); err != nil {
			return nil, err
		}
		mode := o.Policy.Mode
		if want, ok := r.Generate[o.Key]; ok {
			mode = "apply"
			if body["data"], err = certificate(want); err != nil {
				return nil, err
			}
		}
		if mode != "apply" && mode != "create" {
			continue
		}
		m := at(body, "metadata")
		m["namespace"] = bare
		at(m, "labels")["cuvee-vm.github.io/owner"] = "5d6d3c1e-2b9f-4a43-9d0e-7c1f3f6c0001"
		at(m, "annotations")["cuvee-vm.github.io/key"] = o.Key
		at(m, "annotations")["cuvee-vm.github.io/hash"] = digits
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		apiVersion, _ := body["apiVersion"].(string)
		kind, _ := body["kind"].(string)
		name, _ := m["name"].(string)
		ref := apiserver.Ref{GroupVersionKind: schema.FromAPIVersionAndKind(apiVersion, kind), Namespace: bare, Name: name}
		out = append(out, prepared{ref, data, mode == "create"})
	}
	return out, nil
}

// certificate is the data of a Secret with a certificate.
func certificate(want render.Generate) (map[string]any, error) {
	validFor, err := time.ParseDuration(want.ValidFor)
	if err != nil {
		return nil, err
	}
	pair, err := keypair.New(want.DNSNames, time.Now(), validFor)
	if err != nil {
		return nil, err
	}
	data := map[string]any{}
	for file, content := range pair {
		data[file] = base64.StdEncoding.EncodeToString(content)
	}
	return data, nil
}

// at is a field that is an object, which is made if it is not there.
func at(object map[string]any, field string) map[string]any {
	child, ok := object[field].(map[string]any)
	if !ok {
		child = map[string]any{}
		object[field] = child
	}
	return child
}

// grow makes more VMs, and waits until the manager has nothing more to do with them.
func (b *bench) grow(ctx context.Context, n int) error {
	if _, err := b.add(ctx, n); err != nil {
		return err
	}
	return b.settle(ctx)
}

// growTo makes so many VMs that there are n, and prints what the manager has in memory then.
func (b *bench) growTo(ctx context.Context, n int, name string) error {
	start, from := time.Now(), b.made
	if n > from {
		if err := b.grow(ctx, n-from); err != nil {
			return err
		}
	}
	fmt.Fprintf(os.Stderr, "bench: %d VMs, after %.0f s for the last %d\n", n, time.Since(start).Seconds(), n-from)
	return b.memory(name)
}

// cost is what the creation of a VM takes the manager, until it has nothing more to do with it.
type cost struct {
	cpu     time.Duration
	renders float64
}

// costOfBatch is that of one VM of a batch.
func (b *bench) costOfBatch(ctx context.Context) (cost, error) {
	before, err := b.cpu()
	if err != nil {
		return cost{}, err
	}
	rendersBefore, err := b.renders(ctx)
	if err != nil {
		return cost{}, err
	}
	if err := b.grow(ctx, b.batch); err != nil {
		return cost{}, err
	}
	after, err := b.cpu()
	if err != nil {
		return cost{}, err
	}
	renders, err := b.renders(ctx)
	return cost{(after - before) / time.Duration(b.batch), (renders - rendersBefore) / float64(b.batch)}, err
}

// add creates VMs, and returns when their last object was applied.
func (b *bench) add(ctx context.Context, n int) (time.Time, error) {
	w, err := b.writes()
	if err != nil {
		return time.Time{}, err
	}
	first := b.made
	b.made += n
	if err := each(n, workers, func(i int) error {
		ref := machine(managed, first+i)
		body, err := json.Marshal(manifest(ref))
		if err != nil {
			return err
		}
		_, err = b.api.Create(ctx, ref, body, "bench", false)
		return err
	}); err != nil {
		return time.Time{}, err
	}
	if b.perVM == 0 {
		// The first ones tell how many objects a VM has.
		if err := b.settle(ctx); err != nil {
			return time.Time{}, err
		}
		if err := w.follow(); err != nil {
			return time.Time{}, err
		}
		b.perVM = len(w.objects) / n
		fmt.Fprintf(os.Stderr, "bench: %d objects a VM; for %d VMs the manager wrote %v\n", b.perVM, n, testserver.Count(w.all))
		if b.perVM*n != len(w.objects) || b.perVM == 0 {
			return time.Time{}, fmt.Errorf("%d objects were written for %d VMs; the manager's log ends with:\n%s", len(w.objects), n, tail(b.manager.Log()))
		}
	}
	return b.await(ctx, "all objects are applied", func() (bool, error) {
		err := w.follow()
		return len(w.objects) >= n*b.perVM, err
	})
}

// machine names the VM of a number.
func machine(namespace string, n int) apiserver.Ref {
	return apiserver.Ref{GroupVersionKind: machines, Namespace: namespace, Name: fmt.Sprintf("vm-%05d", n)}
}

// manifest is a VM as users write it: a disk, cloud-init, a network, no display.
func manifest(ref apiserver.Ref) map[string]any {
	return map[string]any{
		"apiVersion": machines.GroupVersion().String(), "kind": machines.Kind,
		"metadata": map[string]any{"name": ref.Name, "namespace": ref.Namespace},
		"spec": map[string]any{
			"cloudInit": map[string]any{"metaData": map[string]any{"local-hostname": ref.Name}},
			"vm": map[string]any{
				"state": "Running", "maximumCpus": int64(4), "currentCpus": int64(2), "maximumRam": "8Gi", "currentRam": "4Gi",
				"networks": []any{map[string]any{"tap": map[string]any{"bridge": "br0"}}},
				"disks": []any{map[string]any{"volumeClaimTemplate": map[string]any{
					"metadata": map[string]any{"name": "system"},
					"spec":     map[string]any{"resources": map[string]any{"requests": map[string]any{"storage": "40Gi"}}},
				}}},
			},
		},
	}
}

// each does something for the numbers up to n, by so many at a time.
func each(n, workers int, do func(int) error) error {
	next := make(chan int)
	var mu sync.Mutex
	var all []error
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for i := range next {
				if err := do(i); err != nil {
					mu.Lock()
					all = append(all, err)
					mu.Unlock()
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	group.Wait()
	return errors.Join(all[:min(len(all), 3)]...)
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
