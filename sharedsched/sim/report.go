package sim

import (
	"fmt"
	"io"
)

// Markdown writes the findings as tables.
func (f *Findings) Markdown(w io.Writer) error {
	p := &printer{w: w}
	s := f.Study
	p.printf("All times are virtual: the figures do not depend on the machine. A load carried is from %d × %v of "+
		"arrivals and found to %.0f %%,\n"+
		"a scene is from %d × %v.\n", timesDrawn*s.Effort.Seeds, s.Effort.Span, 100*s.Effort.Precision, s.Effort.Seeds,
		s.Effort.Span)
	f.carried(p, false, "Load carried",
		"The highest load at which 99 % of the requests are on time, in units of the fluid capacity. Of policies that "+
			"differ only in\n"+
			"a parameter, one is chosen in a short run on another seed (see Tuned settings). Where models are drawn "+
			"at random, they are\n"+
			"drawn three times, with consecutive seeds: the figure is the geometric mean over the draws, each with "+
			"the parameter chosen for\n"+
			"it and the same requests for all policies.")
	f.ratios(p)
	f.ablation(p)
	f.carried(p, true, "Load carried under other arrivals", "The same figure.")
	f.inFlight(p)
	f.hindsights(p)
	f.sceneTables(p)
	f.shifts(p)
	f.tuned(p)
	return p.err
}

func (f *Findings) ablation(p *printer) {
	s := f.Study
	columns := s.columns(false)
	if len(s.Variants) == 0 || len(columns) == 0 {
		return
	}
	ours := at(f.G99[0], columns)
	p.section("Ablation", "The load carried with one part of the scheduler changed.")
	p.row("variant", s.names(columns), "geomean: it / "+s.Families[0].Name)
	p.rule(len(columns) + 1)
	p.row(s.Families[0].Name, numbers(ours), "1.00")
	for i, v := range s.Variants {
		theirs := at(f.Ablate[i], columns)
		mean, _ := ratios(theirs, ours)
		p.row(v.Name, numbers(theirs), mean)
	}
	f.isolation(p)
}

// isolation writes the table of the variants' effects on flows that should not suffer.
func (f *Findings) isolation(p *printer) {
	s := f.Study
	var columns []int
	var names []string
	for j := range s.Scenes {
		if s.Scenes[j].Isolation {
			columns = append(columns, j)
			names = append(names, s.Scenes[j].Name)
		}
	}
	if len(columns) == 0 {
		return
	}
	p.section("Ablation: isolation", "Share on time of the flows that ask for no more than their share, beside one "+
		"that floods. The scenes are described below.")
	p.row("variant", names)
	p.rule(len(columns))
	row := func(name string, seen []Seen) {
		var cells []string
		for _, j := range columns {
			cells = append(cells, fmt.Sprintf("%.3f", seen[j].Watched))
		}
		p.row(name, cells)
	}
	row(s.Families[0].Name, f.Scenes[0])
	for i, v := range s.Variants {
		row(v.Name, f.Isolation[i])
	}
}

func (f *Findings) sceneTables(p *printer) {
	shares := func(seen *Seen) string { return seen.String() }
	f.scenes(p, Overload, "Overload",
		"Share on time: of all requests / of the flows within their fair share / of the worst flow.", shares, true)
	f.scenes(p, Overload, "Device time in overload",
		"For results on time / for late ones / idle while requests waited, as shares of the time.",
		func(seen *Seen) string { return fmt.Sprintf("%.2f / %.3f / %.3f", seen.Useful, seen.Wasted, seen.Idle) },
		false)
	f.scenes(p, Adversity, "Adversity", "Share on time of those who should not suffer.",
		func(seen *Seen) string { return fmt.Sprintf("%.3f", seen.Watched) }, true)
	f.scenes(p, Change, "Change",
		"Share on time: of all requests / of the flows within their fair share / of the worst flow.", shares, true)
}

// scenes writes a table of one figure in the scenes of a group.
func (f *Findings) scenes(p *printer, g Group, title, about string, cell func(*Seen) string, explain bool) {
	s := f.Study
	var columns []int
	var names []string
	for j := range s.Scenes {
		if s.Scenes[j].Group == g {
			columns = append(columns, j)
			names = append(names, s.Scenes[j].Name)
		}
	}
	if len(columns) == 0 {
		return
	}
	p.section(title, about)
	p.row("policy", names)
	p.rule(len(columns))
	for i, family := range s.Families {
		var cells []string
		for _, j := range columns {
			cells = append(cells, cell(&f.Scenes[i][j]))
		}
		p.row(family.Name, cells)
	}
	if !explain {
		return
	}
	p.printf("\n")
	for _, j := range columns {
		p.item(s.Scenes[j].Name, s.Scenes[j].About)
	}
}

// hindsights writes the table of loads carried by a search that knows the future.
func (f *Findings) hindsights(p *printer) {
	if len(f.Hindsight) == 0 {
		return
	}
	ours := f.Study.Families[0].Name
	p.section("With hindsight", fmt.Sprintf("The load that is carried, at least, if all arrivals and true costs are "+
		"known in advance, by running one batch at a time: by a\n"+
		"beam search over batches. Runs of %v with a single seed, of the first draw.", hindsightEffort.Span))
	p.row("workload", []string{ours, "search", ours + " / search"})
	p.rule(3)
	for _, h := range f.Hindsight {
		found, _ := ratios([]float64{h.Ours}, []float64{h.Search})
		p.row(h.Workload, append(numbers([]float64{h.Ours, h.Search}), found))
	}
}

// columns returns the workloads of one kind.
func (s *Study) columns(further bool) []int {
	var columns []int
	for j := range s.Workloads {
		if s.Workloads[j].Further == further {
			columns = append(columns, j)
		}
	}
	return columns
}

func (s *Study) names(columns []int) []string {
	var names []string
	for _, j := range columns {
		names = append(names, s.Workloads[j].Name)
	}
	return names
}

func at(row []float64, columns []int) []float64 {
	var some []float64
	for _, j := range columns {
		some = append(some, row[j])
	}
	return some
}
