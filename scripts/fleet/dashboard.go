package fleet

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
)

// dashboard is what is checked of one of Grafana.
type dashboard struct {
	Links      []struct{ URL string }
	Templating struct {
		List []variable
	}
	Panels []panel
}

type variable struct {
	Name, Definition string
	Query            struct{ Query string }
}

type panel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ H, W, X, Y int }
	Targets                  []struct {
		Expr     string
		Exemplar bool
	}
}

// The variables and rows of the dashboard, in their order.
var (
	variables = []string{"cluster", "replica", "model", "version"}
	rows      = []string{
		"Is it well?", "Who uses the device?", "Latency and queues", "Versions and shadow", "Cost and GPU",
	}
)

var (
	values   = regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)
	sentence = regexp.MustCompile(`^[A-Z][^.]*\.$`)
	// linked are the histograms whose buckets lead to traces.
	linked = regexp.MustCompile(`weft_(request_duration|queue_wait)_seconds_bucket`)
)

// dashboardIn returns what is wrong with the dashboard of a file.
func dashboardIn(file string, metrics map[string]metric) (complaints []string) {
	text, err := os.ReadFile(file)
	if err != nil {
		return []string{err.Error()}
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		return []string{file + ": " + err.Error()}
	}
	complain := func(where, format string, args ...any) {
		complaints = append(complaints, where+": "+fmt.Sprintf(format, args...))
	}
	c := &checker{metrics: metrics}
	var names []string
	for _, v := range d.Templating.List {
		names = append(names, v.Name)
		parts := values.FindStringSubmatch(v.Query.Query)
		if parts == nil || v.Definition != v.Query.Query {
			complain("variable "+v.Name, "%q is not label_values(SERIES, LABEL), or not its definition", v.Query.Query)
			continue
		}
		there, wrong := c.expression(parts[1])
		if !slices.Contains(there, parts[2]) {
			wrong = append(wrong, "no label "+parts[2])
		}
		for _, w := range wrong {
			complain("variable "+v.Name, "%s", w)
		}
	}
	if !slices.Equal(names, variables) {
		complain("variables", "%v, want %v", names, variables)
	}
	if !slices.ContainsFunc(d.Links, func(l struct{ URL string }) bool { return l.URL == "http://${replica}/live/" }) {
		complain("links", "none leads to the replica's own page, http://${replica}/live/")
	}
	c.filtered = filtered
	titles, ids := []string{}, map[int]bool{}
	for i := range d.Panels {
		p := &d.Panels[i]
		if ids[p.ID] {
			complain(p.Title, "another panel has the id %d, too", p.ID)
		}
		ids[p.ID] = true
		for j := range d.Panels[:i] {
			if p.overlaps(&d.Panels[j]) {
				complain(p.Title, "it overlaps %s", d.Panels[j].Title)
			}
		}
		if p.Type == "row" {
			titles = append(titles, p.Title)
			continue
		}
		for _, w := range p.wrong(c) {
			complain(p.Title, "%s", w)
		}
	}
	if !slices.Equal(titles, rows) {
		complain("rows", "%q, want %q", titles, rows)
	}
	return complaints
}

// wrong returns what is wrong with a panel that shows something.
func (p *panel) wrong(c *checker) (complaints []string) {
	if !sentence.MatchString(p.Description) {
		complaints = append(complaints, fmt.Sprintf("the description %q is not one sentence", p.Description))
	}
	if len(p.Targets) == 0 {
		complaints = append(complaints, "it shows nothing")
	}
	for _, t := range p.Targets {
		_, wrong := c.expression(strings.ReplaceAll(t.Expr, "$__rate_interval", "5m"))
		complaints = append(complaints, wrong...)
		if t.Exemplar != linked.MatchString(t.Expr) {
			complaints = append(complaints, fmt.Sprintf("%s: exemplars are %v, which the metric has or has not", t.Expr,
				t.Exemplar))
		}
	}
	return complaints
}

func (p *panel) overlaps(o *panel) bool {
	a, b := p.GridPos, o.GridPos
	return a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H
}

// filtered wants a selector to follow the variables of the dashboard.
func filtered(m metric, matchers []*labels.Matcher) (complaints []string) {
	follows := map[string]string{"cluster": "$cluster", "instance": "$replica"}
	if slices.Contains(m.labels, "model") { // else a version is that of the program
		follows["model"] = "$model"
		if slices.Contains(m.labels, "version") {
			follows["version"] = "$version"
		}
	}
	for _, label := range []string{"cluster", "instance", "model", "version"} {
		want, must := follows[label]
		if must && !slices.ContainsFunc(matchers, func(l *labels.Matcher) bool {
			return l.Name == label && l.Type == labels.MatchRegexp && l.Value == want
		}) {
			complaints = append(complaints, fmt.Sprintf("it lacks %s=~%q", label, want))
		}
	}
	return complaints
}
