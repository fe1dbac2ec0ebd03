// Package promql reads what is written in Prometheus' language in the dashboards and alerts of kustomize/components. Its tests hold that
// to the documented metrics, and let each alert fire.
package promql

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

// Expression is an expression, and where it stands.
type Expression struct {
	Where, Text string
}

// Alert is a rule of a PrometheusRule.
type Alert struct {
	Name        string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// Alerts reads a PrometheusRule.
func Alerts(file string) ([]Alert, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read alerts: %w", err)
	}
	var rule struct {
		Spec struct {
			Groups []struct {
				Rules []Alert `json:"rules"`
			} `json:"groups"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(text, &rule); err != nil {
		return nil, fmt.Errorf("read alerts of %s: %w", file, err)
	}
	var out []Alert
	for _, g := range rule.Spec.Groups {
		out = append(out, g.Rules...)
	}
	return out, nil
}

// labelValues is the query of a dashboard's variable.
var labelValues = regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)

// Dashboard returns the expressions of a dashboard. What Grafana puts in the place of a variable stands in them: a variable of the dashboard
// is only ever in a string, and a time is five minutes.
func Dashboard(file string) ([]Expression, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read dashboard: %w", err)
	}
	var d struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
		Templating struct {
			List []struct {
				Type  string
				Name  string
				Query any
			}
		}
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("read dashboard %s: %w", file, err)
	}
	name := filepath.Base(file)
	var out []Expression
	for _, p := range d.Panels {
		for _, t := range p.Targets {
			out = append(out, Expression{name + ": " + p.Title, strings.ReplaceAll(t.Expr, "$__rate_interval", "5m")})
		}
	}
	for _, v := range d.Templating.List {
		query, ok := v.Query.(map[string]any)
		if v.Type != "query" || !ok {
			continue
		}
		m := labelValues.FindStringSubmatch(fmt.Sprint(query["query"]))
		if m == nil {
			return nil, fmt.Errorf("%s: the query of the variable %s is not label_values(SERIES, LABEL)", name, v.Name)
		}
		out = append(out, Expression{name + ": variable " + v.Name, "count by (" + m[2] + ") (" + m[1] + ")"})
	}
	return out, nil
}

// Used is a metric, and the labels that an expression wants it to have.
type Used struct {
	Metric string
	Labels []string
}

// Uses returns the metrics of an expression, each with the labels that are selected or grouped by.
func Uses(text string) ([]Used, error) {
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", text, err)
	}
	var out []Used
	parser.Inspect(expr, func(node parser.Node, path []parser.Node) error {
		series, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		u := Used{Metric: series.Name}
		for _, m := range series.LabelMatchers {
			if m.Name != model.MetricNameLabel {
				u.Labels = append(u.Labels, m.Name)
			}
		}
		for _, above := range path {
			if a, ok := above.(*parser.AggregateExpr); ok {
				u.Labels = append(u.Labels, a.Grouping...)
			}
		}
		out = append(out, u)
		return nil
	})
	return out, nil
}
