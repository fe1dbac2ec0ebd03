package main

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// processMetrics are those of the program itself. elected is closed when this manager may work.
func processMetrics(elected <-chan struct{}) []prometheus.Collector {
	leader := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "cuvee_leader", Help: "1 if this manager works, 0 if it waits for another one to end.",
	}, func() float64 {
		select {
		case <-elected:
			return 1
		default:
			return 0
		}
	})
	info := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "cuvee_manager_info", Help: "1, with the version of the program.", ConstLabels: prometheus.Labels{"version": version},
	}, func() float64 { return 1 })
	return []prometheus.Collector{leader, info}
}

// register adds collectors to what is served at /metrics. What it returns takes them away again.
func register(collectors ...prometheus.Collector) (unregister func(), err error) {
	var done []prometheus.Collector
	unregister = func() {
		for _, c := range done {
			metrics.Registry.Unregister(c)
		}
	}
	for _, c := range collectors {
		if err := metrics.Registry.Register(c); err != nil {
			unregister()
			return nil, fmt.Errorf("register metrics: %w", err)
		}
		done = append(done, c)
	}
	return unregister, nil
}
