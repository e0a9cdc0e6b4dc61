// Package fleet checks what a fleet is watched with, deploy/, against the metrics that a server has.
//
// It is a module of its own, so that the parser of Prometheus' language is none of the server's libraries.
package fleet

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

// runbook is where the page of operators is read.
const runbook = "https://github.com/weftserve/weft/blob/main/docs/operations/monitoring.md#"

var severities = []string{"critical", "warning", "info"}

var (
	used = regexp.MustCompile(`\$labels\.(\w+)`)
	row  = regexp.MustCompile(`(?m)^\| <a id="(\w+)"></a>(\w+) \| [^|]+ \| [^|]+ \|$`)
)

// alertsIn returns what is wrong with the alerts of a file, given the tests of them and the page of operators, on which
// each has a row that says what it means and what to do.
func alertsIn(file, tests, page string, metrics map[string]metric) (complaints []string) {
	text, err := os.ReadFile(file)
	if err != nil {
		return []string{err.Error()}
	}
	groups, errs := rulefmt.Parse(text, false, model.UTF8Validation, parser.NewParser(parser.Options{}),
		slog.New(slog.DiscardHandler))
	for _, err := range errs {
		complaints = append(complaints, err.Error())
	}
	if groups == nil {
		return complaints
	}
	docs, err := os.ReadFile(page)
	if err != nil {
		return append(complaints, err.Error())
	}
	anchors := anchorsOf(string(docs))
	tried, err := triedIn(tests)
	if err != nil {
		return append(complaints, err.Error())
	}
	c := &checker{metrics: metrics}
	for _, group := range groups.Groups {
		for i := range group.Rules {
			r := &group.Rules[i]
			there, wrong := c.expression(r.Expr)
			wrong = append(wrong, said(r, there, anchors)...)
			if t := tried[r.Alert]; !t.fires || !t.quiet {
				wrong = append(wrong, fmt.Sprintf("%s does not try when it fires and when it does not", tests))
			}
			delete(tried, r.Alert)
			for _, w := range wrong {
				complaints = append(complaints, r.Alert+": "+w)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(tried)) {
		complaints = append(complaints, fmt.Sprintf("%s tries %s, which there is not", tests, name))
	}
	return complaints
}

// said returns what is wrong with what an alert says.
func said(r *rulefmt.Rule, there, anchors []string) (complaints []string) {
	if !slices.Contains(severities, r.Labels["severity"]) {
		complaints = append(complaints, fmt.Sprintf("severity %q, want one of %v", r.Labels["severity"], severities))
	}
	if !strings.HasSuffix(r.Annotations["summary"], ".") {
		complaints = append(complaints, fmt.Sprintf("the summary %q is no sentence", r.Annotations["summary"]))
	}
	for _, label := range used.FindAllStringSubmatch(r.Annotations["summary"], -1) {
		if !slices.Contains(there, label[1]) {
			complaints = append(complaints, fmt.Sprintf("the summary names the label %s; there are %v", label[1], there))
		}
	}
	anchor, found := strings.CutPrefix(r.Annotations["runbook_url"], runbook)
	if !found || !slices.Contains(anchors, anchor) || anchor != strings.ToLower(r.Alert) {
		complaints = append(complaints, fmt.Sprintf("the runbook %q is no row for it in docs/operations/monitoring.md",
			r.Annotations["runbook_url"]))
	}
	return complaints
}

// anchorsOf returns what links to the runbooks of a page end with.
func anchorsOf(page string) (all []string) {
	for _, r := range row.FindAllStringSubmatch(page, -1) {
		if r[1] == strings.ToLower(r[2]) {
			all = append(all, r[1])
		}
	}
	return all
}

// trial says whether tests try that an alert fires, and that it does not.
type trial struct{ fires, quiet bool }

func triedIn(file string) (map[string]trial, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var parsed struct {
		Tests []struct {
			Alerts []struct {
				Name     string `yaml:"alertname"`
				Expected []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	if err := yaml.Unmarshal(text, &parsed); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	all := map[string]trial{}
	for _, test := range parsed.Tests {
		fires := map[string]bool{} // at some time of the test
		for _, a := range test.Alerts {
			fires[a.Name] = fires[a.Name] || len(a.Expected) > 0
		}
		for name, fires := range fires {
			t := all[name]
			t.fires, t.quiet = t.fires || fires, t.quiet || !fires
			all[name] = t
		}
	}
	return all, nil
}
