package controller

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cuvee-vm/cuvee/render"
)

// series are the metrics that the templates of one package declare: what they count is kept here, and gauges are added up when
// somebody asks.
type series struct {
	mu         sync.Mutex
	counters   map[string]*prometheus.CounterVec
	histograms map[string]*prometheus.HistogramVec
}

// buckets are seconds, from what a pass takes to what a large volume may.
var buckets = []float64{.005, .025, .1, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600}

// count adds to a counter. Entries of one name have the same labels; one that has not is left out.
func (s *series) count(e render.Series) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counters == nil {
		s.counters = map[string]*prometheus.CounterVec{}
	}
	if s.counters[e.Name] == nil {
		s.counters[e.Name] = prometheus.NewCounterVec(prometheus.CounterOpts{Name: e.Name, Help: e.Help}, labelNames(e))
	}
	if c, err := s.counters[e.Name].GetMetricWith(e.Labels); err == nil {
		c.Add(max(e.Value, 0))
	}
}

// observe adds a duration to a histogram.
func (s *series) observe(e render.Series, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.histograms == nil {
		s.histograms = map[string]*prometheus.HistogramVec{}
	}
	if s.histograms[e.Name] == nil {
		s.histograms[e.Name] = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: e.Name, Help: e.Help, Buckets: buckets}, labelNames(e))
	}
	if h, err := s.histograms[e.Name].GetMetricWith(e.Labels); err == nil {
		h.Observe(max(d, 0).Seconds())
	}
}

func (s *series) collect(ch chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.counters {
		c.Collect(ch)
	}
	for _, h := range s.histograms {
		h.Collect(ch)
	}
}

func labelNames(e render.Series) []string { return slices.Sorted(maps.Keys(e.Labels)) }

// setSeries counts what is new in a render, and remembers the rest. What holds since before this manager was counted by the one
// before it.
func (p *pass) setSeries(now map[string]render.Series) {
	p.mu.Lock()
	last, first := p.state.series, !p.state.counted
	p.state.series, p.state.counted = nil, true
	if len(now) > 0 {
		p.state.series = now
	}
	p.mu.Unlock()
	known := first && p.liveStatus()[observedGeneration] != nil
	for key, e := range now {
		before, there := last[key]
		switch {
		case e.Type == render.Counter:
			if !known && (!there || !maps.Equal(before.Labels, e.Labels)) {
				p.declared.count(e)
			}
		case e.Type == render.Histogram:
			if p.state.measured[key] == e.From {
				continue
			}
			if p.state.measured == nil {
				p.state.measured = map[string]string{}
			}
			p.state.measured[key] = e.From
			if !known {
				p.declared.observe(e, e.Between())
			}
		}
	}
}

// collectGauges adds up the gauges of all custom resources.
func (k *kindController) collectGauges(ch chan<- prometheus.Metric) {
	type gauge struct {
		entry render.Series
		sum   float64
	}
	sums := map[string]*gauge{}
	for _, s := range k.states {
		for _, e := range s.series {
			if e.Type != render.Gauge {
				continue
			}
			id := e.ID()
			if sums[id] == nil {
				sums[id] = &gauge{entry: e}
			}
			sums[id].sum += e.Value
		}
	}
	for _, g := range sums {
		names := labelNames(g.entry)
		values := make([]string, len(names))
		for i, n := range names {
			values[i] = g.entry.Labels[n]
		}
		if m, err := prometheus.NewConstMetric(prometheus.NewDesc(g.entry.Name, g.entry.Help, names, nil), prometheus.GaugeValue, g.sum, values...); err == nil {
			ch <- m
		}
	}
}
