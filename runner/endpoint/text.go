package endpoint

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// contentType is that of the text format
// (https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format).
const contentType = "text/plain; version=0.0.4; charset=utf-8"

// The kinds of metrics.
const (
	counter   = "counter"
	gauge     = "gauge"
	histogram = "histogram"
)

// text is metrics in Prometheus' text format. It is written here, and not with Prometheus' library, which would be a fifth of
// a runner's memory.
type text struct {
	bytes.Buffer
}

// label is a label of a sample.
type label struct{ name, value string }

// head begins a metric.
func (t *text) head(name, kind, help string) {
	t.WriteString("# HELP " + name + " " + help + "\n# TYPE " + name + " " + kind + "\n")
}

// sample adds a value to the metric that was begun.
func (t *text) sample(name string, value float64, labels ...label) {
	t.WriteString(name)
	for i, l := range labels {
		separator := ","
		if i == 0 {
			separator = "{"
		}
		t.WriteString(separator + l.name + `="` + escape.Replace(l.value) + `"`)
	}
	if len(labels) > 0 {
		t.WriteByte('}')
	}
	t.WriteString(" " + strconv.FormatFloat(value, 'g', -1, 64) + "\n")
}

var escape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// single adds a metric of one value.
func (t *text) single(name, kind, help string, value float64) {
	t.head(name, kind, help)
	t.sample(name, value)
}

// each adds a counter with a value for each entry of a map.
func each[T any](t *text, name, help, labelName string, values map[string]T, value func(T) float64) {
	if len(values) == 0 {
		return
	}
	t.head(name, counter, help)
	for _, key := range slices.Sorted(maps.Keys(values)) {
		t.sample(name, value(values[key]), label{labelName, key})
	}
}
