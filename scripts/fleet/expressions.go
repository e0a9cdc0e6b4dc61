package fleet

import (
	"fmt"
	"slices"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// overflow is the label of the series that stands for those beyond the bound of a metric.
const overflow = "otel_metric_overflow"

// checker complains about expressions in Prometheus' language.
type checker struct {
	metrics map[string]metric
	// filtered, if set, is asked of each selector of a metric.
	filtered func(m metric, matchers []*labels.Matcher) []string
}

// expression returns what is wrong with one: metrics that no server has, labels that they do not have, rates of what
// is no counter, and quotients that are not a number while nothing happens. The labels are those of its series, and
// more.
func (c *checker) expression(text string) (labels, complaints []string) {
	root, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		return nil, []string{err.Error()}
	}
	complain := func(n parser.Node, format string, args ...any) {
		complaints = append(complaints, fmt.Sprintf("%s: %s", n, fmt.Sprintf(format, args...)))
	}
	parser.Inspect(root, func(n parser.Node, path []parser.Node) error {
		switch n := n.(type) {
		case *parser.VectorSelector:
			for _, text := range c.selector(n) {
				complain(n, "%s", text)
			}
		case *parser.AggregateExpr:
			c.known(n, n.Grouping, n.Expr, complain)
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				c.known(n, slices.Concat(n.VectorMatching.MatchingLabels, n.VectorMatching.Include), n, complain)
			}
			if n.Op == parser.DIV && !guarded(n.RHS) {
				complain(n, "divides by what may be 0; guard it, as in x / (y > 0) or x / clamp_min(y, 1)")
			}
		case *parser.Call:
			switch n.Func.Name {
			case "rate", "irate", "increase":
				if s := selectorOf(n.Args[0]); s != nil && c.metrics[s.Name].kind == "gauge" {
					complain(n, "%s is a gauge, which has no rate", s.Name)
				}
			case "histogram_quantile":
				if !slices.ContainsFunc(path, isFilter) {
					complain(n, "is not a number while nothing is measured; compare it, as in ... >= 0")
				}
			}
		}
		return nil
	})
	return c.labelsIn(root), complaints
}

// known complains about labels that no series below a node has.
func (c *checker) known(n parser.Node, names []string, below parser.Node, complain func(parser.Node, string, ...any)) {
	there := c.labelsIn(below)
	for _, name := range names {
		if !slices.Contains(there, name) {
			complain(n, "there is no label %s; there are %v", name, there)
		}
	}
}

// selector returns what is wrong with a selector.
func (c *checker) selector(s *parser.VectorSelector) (complaints []string) {
	if s.Name == "" { // chosen by a pattern
		return nil
	}
	m, known := c.metrics[s.Name]
	if !known {
		return []string{"no server has this metric"}
	}
	for _, match := range s.LabelMatchers {
		if match.Name != model.MetricNameLabel && !slices.Contains(c.labelsIn(s), match.Name) {
			complaints = append(complaints, fmt.Sprintf("%s has no label %s", s.Name, match.Name))
		}
	}
	if c.filtered != nil {
		complaints = append(complaints, c.filtered(m, s.LabelMatchers)...)
	}
	return complaints
}

// labelsIn returns the labels of all selectors in a node.
func (c *checker) labelsIn(n parser.Node) (all []string) {
	parser.Inspect(n, func(n parser.Node, _ []parser.Node) error {
		if s, is := n.(*parser.VectorSelector); is {
			all = append(all, target...)
			all = append(all, c.metrics[s.Name].labels...)
			if s.Name == "" {
				all = append(all, overflow)
			}
		}
		return nil
	})
	slices.Sort(all)
	return slices.Compact(all)
}

// guarded reports whether an expression is never 0.
func guarded(e parser.Expr) bool {
	switch e := e.(type) {
	case *parser.ParenExpr:
		return guarded(e.Expr)
	case *parser.NumberLiteral:
		return e.Val != 0
	case *parser.BinaryExpr:
		return e.Op == parser.GTR && !e.ReturnBool
	case *parser.Call:
		return e.Func.Name == "clamp_min"
	}
	return false
}

func isFilter(n parser.Node) bool {
	b, is := n.(*parser.BinaryExpr)
	return is && b.Op.IsComparisonOperator() && !b.ReturnBool
}

// selectorOf returns the selector that a function of a range is applied to.
func selectorOf(e parser.Expr) *parser.VectorSelector {
	if m, is := e.(*parser.MatrixSelector); is {
		s, _ := m.VectorSelector.(*parser.VectorSelector)
		return s
	}
	return nil
}
