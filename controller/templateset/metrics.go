package templateset

import "github.com/prometheus/client_golang/prometheus"

var (
	refusedMetric  = prometheus.NewDesc("cuvee_templates_refused", "1 if the files of the site's directory are not those in use, see /templates.", nil, nil)
	refusalsMetric = prometheus.NewDesc("cuvee_templates_refusals_total", "How often files of the site's directory were refused.", nil, nil)
	sinceMetric    = prometheus.NewDesc("cuvee_templates_taken_timestamp_seconds", "When the templates in use were taken, in seconds since 1970.", nil, nil)
	infoMetric     = prometheus.NewDesc("cuvee_templates_info", "1 for each template package in use, with its revision.", []string{"package", "revision"}, nil)
)

// Describe is part of [prometheus.Collector].
func (s *Store) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{refusedMetric, refusalsMetric, sinceMetric, infoMetric} {
		to <- d
	}
}

// Collect is part of [prometheus.Collector].
func (s *Store) Collect(to chan<- prometheus.Metric) {
	now := s.now()
	refused := 0.0
	if now.problem != nil {
		refused = 1
	}
	to <- prometheus.MustNewConstMetric(refusedMetric, prometheus.GaugeValue, refused)
	to <- prometheus.MustNewConstMetric(refusalsMetric, prometheus.CounterValue, float64(now.refused))
	if !now.since.IsZero() {
		to <- prometheus.MustNewConstMetric(sinceMetric, prometheus.GaugeValue, float64(now.since.UnixMilli())/1000)
	}
	for _, p := range now.packages {
		to <- prometheus.MustNewConstMetric(infoMetric, prometheus.GaugeValue, 1, p.Name, p.Revision)
	}
}
