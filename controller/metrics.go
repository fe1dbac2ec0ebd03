package controller

import (
	"strings"
	"time"
	"unique"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/cuvee-vm/cuvee/controller/apiserver"
)

// metrics are those of one engine.
type metrics struct {
	passes  *prometheus.HistogramVec
	renders *prometheus.CounterVec
	render  *prometheus.HistogramVec
	writes  *prometheus.CounterVec
	skips   *prometheus.CounterVec
}

func newMetrics() *metrics {
	return &metrics{
		passes: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "cuvee_reconcile_duration_seconds", Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10},
			Help: "Passes over custom resources, by template package and result: unchanged, done, waiting, stale or failed.",
		}, []string{"package", "result"}),
		renders: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cuvee_renders_total", Help: "Renders of custom resources, by template package.",
		}, []string{"package"}),
		render: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "cuvee_render_duration_seconds", Buckets: []float64{.0025, .005, .01, .02, .05, .1, .25, 1},
			Help: "Renders of custom resources, by template package.",
		}, []string{"package"}),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cuvee_writes_total", Help: "Requests that write, by template package, verb, kind and the reason of the API server's answer.",
		}, []string{"package", "verb", "kind", "result"}),
		skips: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cuvee_applies_skipped_total", Help: "Rendered objects that a pass has found as they shall be, by template package and kind.",
		}, []string{"package", "kind"}),
	}
}

// collectors are all of them.
func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.passes, m.renders, m.render, m.writes, m.skips}
}

// outcome is what became of a pass.
type outcome string

const (
	// outcomeUnchanged: nothing has changed since the last pass, which had done all.
	outcomeUnchanged outcome = "unchanged"
	// outcomeDone: all there was to do is done.
	outcomeDone outcome = "done"
	// outcomeWaiting: only a change in the cluster helps.
	outcomeWaiting outcome = "waiting"
	// outcomeStale: the custom resource has changed meanwhile.
	outcomeStale outcome = "stale"
	// outcomeFailed: it is tried again.
	outcomeFailed outcome = "failed"
)

// measure counts a pass that has ended.
func (p *pass) measure(start time.Time) {
	took := time.Since(start)
	p.metrics.passes.WithLabelValues(p.pkg.Name, string(p.outcome)).Observe(took.Seconds())
	if s := p.pkg.Set.Passes; s.Name != "" {
		p.declared.observe(s, took)
	}
}

// countRender counts a render.
func (p *pass) countRender(start time.Time) {
	p.metrics.renders.WithLabelValues(p.pkg.Name).Inc()
	p.metrics.render.WithLabelValues(p.pkg.Name).Observe(time.Since(start).Seconds())
}

// countSkip counts an object that is as it shall be.
func (p *pass) countSkip(ref apiserver.Ref) {
	p.metrics.skips.WithLabelValues(p.pkg.Name, ref.Kind).Inc()
}

// countWrite counts a request that writes.
func (p *pass) countWrite(verb string, ref apiserver.Ref, err error) {
	result := "OK"
	if err != nil {
		if result = string(apierrors.ReasonForError(err)); result == "" {
			result = "Unknown"
		}
	}
	p.metrics.writes.WithLabelValues(p.pkg.Name, verb, ref.Kind, result).Inc()
}

// setMetrics takes over what the templates say in numbers about a custom resource.
func (p *pass) setMetrics(m map[string]float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.metrics = nil
	if len(m) > 0 {
		p.state.metrics = m
	}
}

// Describe tells nothing in advance: which metrics there are is up to the templates.
func (e *Engine) Describe(chan<- *prometheus.Desc) {}

// resourcesMetric counts custom resources by what the condition Ready says.
var resourcesMetric = prometheus.NewDesc("cuvee_resources", "Custom resources, by template package, namespace, and the status and reason of their condition Ready.",
	[]string{"package", "namespace", "ready", "reason"}, nil)

// Collect returns the engine's metrics, and those of the templates as cuvee_PACKAGE_NAME.
func (e *Engine) Collect(ch chan<- prometheus.Metric) {
	for _, c := range e.metrics.collectors() {
		c.Collect(ch)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for name, k := range e.running {
		k.collect(name, ch)
	}
}

func (k *kindController) collect(name string, ch chan<- prometheus.Metric) {
	k.mu.Lock()
	defer k.mu.Unlock()
	type group struct {
		namespace string
		readiness
	}
	resources := map[group]int{}
	for ref, s := range k.states {
		if s.ready != (unique.Handle[readiness]{}) {
			resources[group{ref.Namespace, s.ready.Value()}]++
		}
		for metric, value := range s.metrics {
			desc := prometheus.NewDesc("cuvee_"+name+"_"+metricName(metric), "As the templates have it.", []string{"namespace", "name"}, nil)
			if m, err := prometheus.NewConstMetric(desc, prometheus.GaugeValue, value, ref.Namespace, ref.Name); err == nil {
				ch <- m
			}
		}
	}
	k.collectGauges(ch)
	k.declared.collect(ch)
	for g, n := range resources {
		ch <- prometheus.MustNewConstMetric(resourcesMetric, prometheus.GaugeValue, float64(n), name, g.namespace, g.status, g.reason)
	}
}

// readiness is what the condition Ready says.
type readiness struct{ status, reason string }

// setReady notes what the condition Ready of a status says.
func (p *pass) setReady(status map[string]any) {
	c := conditionsOf(status)[conditionReady]
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.ready = unique.Make(readiness{text(c["status"]), text(c["reason"])})
}

// metricName makes a name of Prometheus' kind of one in the templates.
func metricName(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '_'
	}, name)
}
