package sim

import (
	"fmt"
	"slices"
	"strings"
)

const bestOfOthers = "the best of the others"

// compared holds the rows of the table of ratios, and a description of each.
var compared = []struct{ family, about string }{
	{FamilyTFServing, "one batch at a time, a queue for each model in turn; batch timeout and expiry are tuned"},
	{FamilyTriton, "as shipped, without a queue timeout: a batcher for each model, whose batches share the device " +
		"without gain or loss; the queue delay is tuned"},
	{FamilyTritonReject, "the same with a queue timeout equal to the objective and the action REJECT, which has to " +
		"be " +
		"asked for"},
	{FamilyNexus, "round robin by duty cycle, with batch sizes planned from rates or for saturation, which is tuned, " +
		"and early drop"},
	{FamilyClockwork, "least latest start over batch sizes in powers of two, with early drop; nothing is tuned"},
}

// carried writes the table of loads carried on the workloads of one kind.
func (f *Findings) carried(p *printer, further bool, title, about string) {
	s := f.Study
	columns := s.columns(further)
	if len(columns) == 0 {
		return
	}
	ours := at(f.G99[0], columns)
	p.section(title, about)
	p.row("policy", s.names(columns), fmt.Sprintf("geomean: %s / it", s.Families[0].Name),
		"worst: "+s.Families[0].Name+" / it")
	p.rule(len(columns) + 2)
	for i, family := range s.Families {
		theirs := at(f.G99[i], columns)
		mean, worst := ratios(ours, theirs)
		p.row(family.Name, numbers(theirs), mean, worst)
	}
	if len(s.Families) > 1 {
		best := f.best(columns)
		mean, worst := ratios(ours, best)
		p.row(bestOfOthers, numbers(best), mean, worst)
	}
	p.printf("\n")
	for _, j := range columns {
		p.item(s.Workloads[j].Name, s.Workloads[j].About)
	}
}

// best returns the highest load that any other family carries on each workload.
func (f *Findings) best(columns []int) []float64 {
	best := make([]float64, len(columns))
	for _, carried := range f.G99[1:] {
		for k, j := range columns {
			best[k] = max(best[k], carried[j])
		}
	}
	return best
}

// ratios writes the table of how many times the load of others the first family carries, on the workloads that decide.
func (f *Findings) ratios(p *printer) {
	s := f.Study
	columns := s.columns(false)
	if len(columns) == 0 || len(s.Families) < 2 {
		return
	}
	name := s.Families[0].Name
	p.section("Ratios", fmt.Sprintf("The load that %s carries over the load of others.", name))
	p.row(name+" /", s.names(columns), "geomean", "worst")
	p.rule(len(columns) + 2)
	ours := at(f.G99[0], columns)
	row := func(name string, theirs []float64) {
		var each []string
		for j := range ours {
			ratio, _ := ratios(ours[j:j+1], theirs[j:j+1])
			each = append(each, ratio)
		}
		mean, worst := ratios(ours, theirs)
		p.row(name, each, mean, worst)
	}
	about := printer{w: &strings.Builder{}}
	for _, c := range compared {
		if i := slices.IndexFunc(s.Families, func(other Family) bool { return other.Name == c.family }); i > 0 {
			row(c.family, at(f.G99[i], columns))
			about.item(c.family, c.about)
		}
	}
	row(bestOfOthers, f.best(columns))
	about.item(bestOfOthers, "on each workload the highest load that any other policy of the table above carries")
	p.printf("\n%s", about.w)
}

// tuned writes the table of which member of a family was chosen.
func (f *Findings) tuned(p *printer) {
	s := f.Study
	var names []string
	var rows []int
	for i, family := range s.Families {
		if len(family.Members) > 1 {
			names, rows = append(names, family.Name), append(rows, i)
		}
	}
	if len(rows) == 0 {
		return
	}
	p.section("Tuned settings", "What was chosen for each workload and scene in a run of its own, with a seed that no "+
		"figure is found with. By draw of the models\n"+
		"where the choice is not the same for all.")
	p.row("workload or scene", names)
	p.printf("|---|%s\n", strings.Repeat("---|", len(rows)))
	row := func(name string, cell func(family int) string) {
		var cells []string
		for _, i := range rows {
			cells = append(cells, cell(i))
		}
		p.row(name, cells)
	}
	for j, w := range s.Workloads {
		row(w.Name, func(i int) string { return settings(f.Tuned[i][j]) })
	}
	for j, scene := range s.Scenes {
		row(scene.Name, func(i int) string { return f.Scenes[i][j].Policy })
	}
}

// settings names the members chosen for each draw: a single one if they are the same.
func settings(tuned []string) string {
	if len(slices.Compact(slices.Clone(tuned))) == 1 {
		return tuned[0]
	}
	return strings.Join(tuned, ", ")
}
