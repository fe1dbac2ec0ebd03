package render

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// The types of a [Series].
const (
	// Gauge: the values of all custom resources are added up.
	Gauge = "gauge"
	// Counter: the value is added when the entry comes, or has other labels than at the last render.
	Counter = "counter"
	// Histogram: the time between From and To is observed once for each From.
	Histogram = "histogram"
)

// Series is an entry of a metric that adds up over all custom resources of a kind.
type Series struct {
	Name   string            `json:"name"`
	Help   string            `json:"help"`
	Type   string            `json:"type"`
	Labels map[string]string `json:"labels"`
	Value  float64           `json:"value"`
	// From and To are times, RFC 3339.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

// ID is the same for entries that add up.
func (s Series) ID() string {
	var b strings.Builder
	b.WriteString(s.Name)
	for _, k := range slices.Sorted(maps.Keys(s.Labels)) {
		fmt.Fprintf(&b, " %s=%q", k, s.Labels[k])
	}
	return b.String()
}

// Between is the time from From to To; 0 if one of them is none.
func (s Series) Between() time.Duration {
	from, errFrom := time.Parse(time.RFC3339, s.From)
	to, errTo := time.Parse(time.RFC3339, s.To)
	if errFrom != nil || errTo != nil {
		return 0
	}
	return to.Sub(from)
}

var metricName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// valid is an error for what Prometheus would not take: one bad name would cost all metrics. Those that begin with cuvee_ are the
// engine's.
func (s Series) valid() error {
	if !metricName.MatchString(s.Name) || strings.HasPrefix(s.Name, "cuvee_") {
		return fmt.Errorf("%q is no name for a metric: want letters, digits and _, and no cuvee_ before it", s.Name)
	}
	for l := range s.Labels {
		if !metricName.MatchString(l) || strings.HasPrefix(l, "__") {
			return fmt.Errorf("%s: %q is no name for a label: want letters, digits and _", s.Name, l)
		}
	}
	return nil
}
