package main

import (
	"crypto/tls"
	"fmt"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
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

// metricsTLS is how the metrics are served: by HTTPS if there is a certificate for them. It is read again when it changes, and
// every ten seconds.
func (o *options) metricsTLS() (metricsserver.Options, error) {
	if o.metricsCertDir == "" {
		return metricsserver.Options{BindAddress: o.metrics}, nil
	}
	// Without the files controller-runtime would make a certificate of its own, which nobody knows.
	_, err := tls.LoadX509KeyPair(filepath.Join(o.metricsCertDir, "tls.crt"), filepath.Join(o.metricsCertDir, "tls.key"))
	if err != nil {
		return metricsserver.Options{}, fmt.Errorf("read the certificate of the metrics: %w", err)
	}
	noHTTP2 := func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }
	return metricsserver.Options{BindAddress: o.metrics, SecureServing: true, CertDir: o.metricsCertDir, TLSOpts: []func(*tls.Config){noHTTP2}}, nil
}
