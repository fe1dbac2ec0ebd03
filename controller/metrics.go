package controller

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/cuvee-vm/cuvee/controller/apiserver"
)

// metrics are those of one engine.
type metrics struct {
	renders *prometheus.CounterVec
	writes  *prometheus.CounterVec
}

func newMetrics() *metrics {
	return &metrics{
		renders: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cuvee_renders_total", Help: "Renders of custom resources, by template package.",
		}, []string{"package"}),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cuvee_writes_total", Help: "Requests that write, by template package, verb, kind and the reason of the API server's answer.",
		}, []string{"package", "verb", "kind", "result"}),
	}
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
	p.state.metrics = m
}

// Describe tells nothing in advance: which metrics there are is up to the templates.
func (e *Engine) Describe(chan<- *prometheus.Desc) {}

// Collect returns the engine's metrics, and those of the templates as cuvee_PACKAGE_NAME.
func (e *Engine) Collect(ch chan<- prometheus.Metric) {
	e.metrics.renders.Collect(ch)
	e.metrics.writes.Collect(ch)
	e.mu.Lock()
	defer e.mu.Unlock()
	for name, k := range e.running {
		k.collect("cuvee_"+name+"_", ch)
	}
}

func (k *kindController) collect(prefix string, ch chan<- prometheus.Metric) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for ref, s := range k.states {
		for name, value := range s.metrics {
			desc := prometheus.NewDesc(prefix+metricName(name), "As the templates have it.", []string{"namespace", "name"}, nil)
			if m, err := prometheus.NewConstMetric(desc, prometheus.GaugeValue, value, ref.Namespace, ref.Name); err == nil {
				ch <- m
			}
		}
	}
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
