package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// moment is when an object is first seen, or has a condition.
type moment struct {
	what      string
	resource  schema.GroupVersionResource
	condition string
}

var (
	// vmMoments are those on the way of a VM; the last one is that it runs.
	vmMoments = []moment{{"there is a pod", podResource, ""}, {"its container runs", podResource, "Ready"}, {"QEMU runs", vmResource, "Running"}}
	// podMoments are those of a pod.
	podMoments   = []moment{{"there is a pod", podResource, ""}, {"its container runs", podResource, "Ready"}}
	linuxMoments = []moment{{"QEMU runs", vmResource, "Running"}, {"the guest's agent answers", vmResource, "Booted"}}
)

// start is that of a VM or a pod, with the time of each of its moments.
type start struct {
	created time.Time
	at      []time.Time
}

// runs is the last moment.
func (s start) runs() time.Time { return s.at[len(s.at)-1] }

func (s start) took() time.Duration { return s.runs().Sub(s.created) }

// measureStarts creates VMs and pods in turns, and looks at the VMs while they run.
func (b *bench) measureStarts(ctx context.Context, pattern string, n, rounds int) error {
	var vms, pods []time.Duration
	var writes, events []int
	var overhead []float64
	for round := range rounds {
		these := names(fmt.Sprintf("vm-%d", round), n)
		starts, err := b.startVMs(ctx, these)
		if err != nil {
			return err
		}
		vms = append(vms, durations(starts)...)
		w, e, err := writesOf(b.auditLog, starts)
		if err != nil {
			return err
		}
		writes, events = append(writes, w...), append(events, e...)
		o, err := b.overheads(ctx, these)
		if err != nil {
			return err
		}
		overhead = append(overhead, o...)
		if err := b.remove(ctx, these); err != nil {
			return err
		}
		if starts, err = b.startPods(ctx, pattern, names(fmt.Sprintf("pod-%d", round), n)); err != nil {
			return err
		}
		pods = append(pods, durations(starts)...)
		if err := b.remove(ctx, slices.Collect(maps.Keys(starts))); err != nil {
			return err
		}
	}
	fmt.Printf("figure cluster.vm.p50.ms %.0f ms\n", ms(quantile(vms, .5)))
	fmt.Printf("figure cluster.vm.p95.ms %.0f ms\n", ms(quantile(vms, .95)))
	fmt.Printf("figure cluster.pod.p50.ms %.0f ms\n", ms(quantile(pods, .5)))
	fmt.Printf("figure cluster.vm.over_pod.ms %.0f ms\n", ms(quantile(vms, .5)-quantile(pods, .5)))
	fmt.Printf("figure cluster.writes_per_vm %d writes\n", quantile(writes, .5))
	fmt.Printf("figure cluster.events_per_vm %d writes\n", quantile(events, .5))
	fmt.Printf("figure cluster.overhead.mib %.1f MiB\n", quantile(overhead, .5))
	return nil
}

func durations(starts map[string]start) []time.Duration {
	var out []time.Duration
	for _, s := range starts {
		out = append(out, s.took())
	}
	return out
}

// startVMs creates VMs of these names, and waits until they run.
func (b *bench) startVMs(ctx context.Context, names []string) (map[string]start, error) {
	for _, name := range names {
		if err := b.makeVolumes(ctx, claims(name)...); err != nil {
			return nil, err
		}
	}
	return b.start(ctx, vmMoments, names, func(name string) ([]map[string]any, error) { return []map[string]any{b.vm(name)}, nil })
}

// startPods creates pods of the pattern, with all that is theirs, and waits until they are ready.
func (b *bench) startPods(ctx context.Context, pattern string, names []string) (map[string]start, error) {
	for _, name := range names {
		if err := b.makeVolumes(ctx, claims(name)...); err != nil {
			return nil, err
		}
	}
	return b.start(ctx, podMoments, names, func(name string) ([]map[string]any, error) { return pod(pattern, patternVM, name) })
}

// start creates the objects for each name, and waits for all moments of all of them. It prints the median of each.
func (b *bench) start(ctx context.Context, moments []moment, names []string, objects func(name string) ([]map[string]any, error)) (map[string]start, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	made := map[string][]map[string]any{}
	for _, name := range names {
		var err error
		if made[name], err = objects(name); err != nil {
			return nil, err
		}
	}
	before, err := cpuTimes()
	if err != nil {
		return nil, err
	}
	g, ctx := errgroup.WithContext(ctx)
	created := map[string]time.Time{}
	g.Go(func() error {
		tick := time.NewTicker(b.apart)
		defer tick.Stop()
		for _, name := range names {
			created[name] = time.Now()
			g.Go(func() error { return b.create(ctx, made[name]...) })
			select {
			case <-tick.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	at := make([]map[string]time.Time, len(moments))
	for i, m := range moments {
		g.Go(func() (err error) {
			at[i], err = b.await(ctx, m, names)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	out := map[string]start{}
	for _, name := range names {
		s := start{created: created[name]}
		for i := range moments {
			s.at = append(s.at, at[i][name])
		}
		out[name] = s
	}
	printMoments(moments, out)
	return out, printCPU(before, len(names))
}

func printMoments(moments []moment, starts map[string]start) {
	for i, m := range moments {
		var took []time.Duration
		for _, s := range starts {
			took = append(took, s.at[i].Sub(s.created))
		}
		fmt.Printf("# %d created: %s after %.0f ms\n", len(starts), m.what, ms(quantile(took, .5)))
	}
}

// await returns when each name had its moment.
func (b *bench) await(ctx context.Context, m moment, names []string) (map[string]time.Time, error) {
	w, err := b.api.Resource(m.resource).Namespace(namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	defer w.Stop()
	at := map[string]time.Time{}
	for len(at) < len(names) {
		o, err := next(ctx, w)
		if err != nil {
			return nil, fmt.Errorf("%s: of %d only %d: %w", m.what, len(names), len(at), err)
		}
		name := o.GetName()
		if m.resource == podResource {
			name = strings.TrimSuffix(name, "-0")
		}
		if slices.Contains(names, name) && at[name].IsZero() && (m.condition == "" || has(o, m.condition)) {
			at[name] = time.Now()
		}
	}
	return at, nil
}

// next is the object of the next event.
func next(ctx context.Context, w watch.Interface) (*unstructured.Unstructured, error) {
	for {
		select {
		case e, ok := <-w.ResultChan():
			if !ok {
				return nil, errors.New("the API server ends the watch")
			}
			if o, ok := e.Object.(*unstructured.Unstructured); ok && e.Type != watch.Error {
				return o, nil
			}
			return nil, fmt.Errorf("the API server ends the watch: %v", e.Object)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// has says whether an object has a condition.
func has(o *unstructured.Unstructured, condition string) bool {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(c any) bool {
		m, _ := c.(map[string]any)
		return m["type"] == condition && m["status"] == "True"
	})
}
