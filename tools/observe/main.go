// Command observe reads alert rules with Prometheus' own parser and dashboards with Grafana's own types, both strictly,
// and prints a JSON object for every metric that an expression of theirs selects: {"file", "where", "metric", "labels"},
// with the labels it matches or groups by.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

type use struct {
	File   string   `json:"file"`
	Where  string   `json:"where"`
	Metric string   `json:"metric"`
	Labels []string `json:"labels"`
}

func main() {
	plugins.RegisterDefaultPlugins()
	var errs []error
	for _, path := range os.Args[1:] {
		read := readRules
		if filepath.Ext(path) == ".json" {
			read = readDashboard
		}
		if err := read(path); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", path, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func readRules(path string) error {
	groups, errs := rulefmt.ParseFile(path, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.Default())
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			if err := show(path, rule.Alert+rule.Record, rule.Expr); err != nil {
				return err
			}
		}
	}
	return nil
}

// readDashboard holds the file against what Grafana's types keep of it: a member they don't know is lost on the way.
func readDashboard(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var board dashboard.Dashboard
	if err := json.Unmarshal(content, &board); err != nil {
		return err
	}
	kept, err := json.Marshal(board)
	if err != nil {
		return err
	}
	var before, after any
	if err := errors.Join(json.Unmarshal(content, &before), json.Unmarshal(kept, &after)); err != nil {
		return err
	}
	if err := errors.Join(lost("", before, after)...); err != nil {
		return err
	}
	for _, entry := range board.Panels {
		if entry.Panel == nil {
			continue
		}
		for _, target := range entry.Panel.Targets {
			query, ok := target.(*prometheus.Dataquery)
			if !ok {
				return fmt.Errorf("panel %q: a query that is not Prometheus': %T", *entry.Panel.Title, target)
			}
			if err := show(path, *entry.Panel.Title, query.Expr); err != nil {
				return err
			}
		}
	}
	return nil
}

// lost lists what of before is not in after. What is empty may be left out.
func lost(at string, before, after any) []error {
	var errs []error
	switch b := before.(type) {
	case map[string]any:
		a, _ := after.(map[string]any)
		for name, value := range b {
			errs = append(errs, lost(at+"."+name, value, a[name])...)
		}
	case []any:
		a, _ := after.([]any)
		for i, value := range b {
			var other any
			if i < len(a) {
				other = a[i]
			}
			errs = append(errs, lost(fmt.Sprintf("%s[%d]", at, i), value, other)...)
		}
	default:
		empty := before == nil || reflect.ValueOf(before).IsZero()
		if !reflect.DeepEqual(before, after) && !(empty && after == nil) {
			errs = append(errs, fmt.Errorf("%s: %v is not known to Grafana, or of the wrong type", at, before))
		}
	}
	return errs
}

// variables of Grafana stand where PromQL has durations and texts.
var variables = regexp.MustCompile(`\$__(rate_)?interval|\$__range`)

func show(path, where, text string) error {
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(variables.ReplaceAllString(text, "5m"))
	if err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	out := json.NewEncoder(os.Stdout)
	var failed error
	parser.Inspect(expr, func(node parser.Node, path_ []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		labels := []string{}
		for _, m := range selector.LabelMatchers {
			if m.Name != model.MetricNameLabel {
				labels = append(labels, m.Name)
			}
		}
		for _, above := range path_ {
			if a, ok := above.(*parser.AggregateExpr); ok && !a.Without {
				labels = append(labels, a.Grouping...)
			}
		}
		slices.Sort(labels)
		if err := out.Encode(use{filepath.Base(path), where, selector.Name, slices.Compact(labels)}); err != nil {
			failed = err
		}
		return nil
	})
	return failed
}
