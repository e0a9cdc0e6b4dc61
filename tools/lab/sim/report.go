package sim

import (
	"fmt"
	"io"
	"slices"
)

// Markdown writes the findings as tables.
func (f *Findings) Markdown(w io.Writer) error {
	p := &page{}
	e := f.Study.Effort
	p.printf("All times are virtual: the figures do not depend on the machine. A load carried is from %d × %v of "+
		"arrivals and found to %.0f %%,\n"+
		"a scene is from %d × %v.\n", timesDrawn*e.Seeds, e.Span, 100*e.Precision, e.Seeds, e.Span)
	suite, further := f.Study.workloads(false), f.Study.workloads(true)
	if len(suite) > 0 {
		f.carried(p, suite, "Load carried",
			"The highest load at which 99 % of the requests are on time, in units of the fluid capacity. Of policies "+
				"that differ only in\n"+
				"a parameter, one is chosen in a short run on another seed (see Tuned settings). Where models are "+
				"drawn at random, they are\n"+
				"drawn three times, with consecutive seeds: the figure is the geometric mean over the draws, each "+
				"with the parameter chosen for\n"+
				"it and the same requests for all policies.")
		f.ratios(p, suite)
		f.ablation(p, suite)
	}
	if len(further) > 0 {
		f.carried(p, further, "Load carried under other arrivals", "The same figure.")
	}
	if len(suite) > 0 {
		f.inFlight(p, suite)
	}
	f.sceneTables(p)
	f.shifts(p)
	f.tuned(p)
	_, err := io.WriteString(w, p.String())
	return err
}

// Loads returns the loads that a family carries on workloads.
func (f *Findings) Loads(family *Family, on []Workload) []float64 {
	var loads []float64
	for _, w := range on {
		loads = append(loads, f.Carried[Pair{family.Name, w.Name}].G99)
	}
	return loads
}

// workloads returns the workloads of one kind.
func (s *Study) workloads(further bool) []Workload {
	return slices.DeleteFunc(slices.Clone(s.Workloads), func(w Workload) bool { return w.Further != further })
}

func workloadNames(all []Workload) []string {
	var names []string
	for _, w := range all {
		names = append(names, w.Name)
	}
	return names
}

const bestOfOthers = "the best of the others"

// carried writes a table of loads carried.
func (f *Findings) carried(p *page, on []Workload, title, about string) {
	families := f.Study.Families
	name, ours := families[0].Name, f.Loads(&families[0], on)
	p.section(title, about)
	p.head(right, "policy", append(workloadNames(on), "geomean: "+name+" / it", "worst: "+name+" / it")...)
	row := func(name string, theirs []float64) {
		mean, worst := ratios(ours, theirs)
		p.row(name, append(numbers(theirs...), mean, worst)...)
	}
	for i := range families {
		row(families[i].Name, f.Loads(&families[i], on))
	}
	if len(families) > 1 {
		row(bestOfOthers, f.best(on))
	}
	p.printf("\n")
	for _, w := range on {
		p.item(w.Name, w.About)
	}
}

// best returns the highest load that any other family carries on each workload.
func (f *Findings) best(on []Workload) []float64 {
	best := make([]float64, len(on))
	for _, family := range f.Study.Families[1:] {
		for j, load := range f.Loads(&family, on) {
			best[j] = max(best[j], load)
		}
	}
	return best
}

// compared holds the rows of the table of ratios, and a description of each.
var compared = []struct{ family, about string }{
	{FamilyTFServing, "one batch at a time, a queue for each model in turn; batch timeout and expiry are tuned"},
	{FamilyTriton, "as shipped, without a queue timeout: a batcher for each model, whose batches share the device " +
		"without gain or loss; the queue delay is tuned"},
	{FamilyTritonReject, "the same with a queue timeout equal to the objective and the action REJECT, which has to " +
		"be asked for"},
	{FamilyNexus, "round robin by duty cycle, with batch sizes planned from rates or for saturation, which is tuned, " +
		"and early drop"},
	{FamilyClockwork, "least latest start over batch sizes in powers of two, with early drop; what is kept of an " +
		"objective, and whether an estimate is the largest or the median of the last ten, is tuned"},
	{bestOfOthers, "on each workload the highest load that any other policy of the table above carries"},
}

// ratios writes the table of how many times the load of others the first family carries, on the workloads that decide.
func (f *Findings) ratios(p *page, on []Workload) {
	families := f.Study.Families
	if len(families) < 2 {
		return
	}
	p.section("Ratios", fmt.Sprintf("The load that %s carries over the load of others.", families[0].Name))
	p.head(right, families[0].Name+" /", append(workloadNames(on), "geomean", "worst")...)
	ours := f.Loads(&families[0], on)
	var about page
	for _, c := range compared {
		theirs := f.best(on)
		if c.family != bestOfOthers {
			i := slices.IndexFunc(families, func(other Family) bool { return other.Name == c.family })
			if i < 1 {
				continue
			}
			theirs = f.Loads(&families[i], on)
		}
		var each []string
		for j := range ours {
			ratio, _ := ratios(ours[j:j+1], theirs[j:j+1])
			each = append(each, ratio)
		}
		mean, worst := ratios(ours, theirs)
		p.row(c.family, append(each, mean, worst)...)
		about.item(c.family, c.about)
	}
	p.printf("\n%s", about.String())
}

func (f *Findings) ablation(p *page, on []Workload) {
	s := f.Study
	if len(s.Variants) == 0 {
		return
	}
	all := slices.Concat(s.Families[:1], s.Variants)
	p.section("Ablation", "The load carried with one part of the scheduler changed.")
	p.head(right, "variant", append(workloadNames(on), "geomean: it / "+all[0].Name)...)
	for i := range all {
		theirs := f.Loads(&all[i], on)
		mean, _ := ratios(theirs, f.Loads(&all[0], on))
		p.row(all[i].Name, append(numbers(theirs...), mean)...)
	}
	f.scenes(p, "Ablation: isolation", "Share on time of the flows that ask for no more than their share, beside one "+
		"that floods. The scenes are described below.",
		"variant", all, func(s *Scene) bool { return s.Isolation }, Seen.watched)
}

// inFlight writes the table of the worth of a second batch in flight.
func (f *Findings) inFlight(p *page, on []Workload) {
	all := f.Study.InFlight
	if len(all) == 0 {
		return
	}
	p.section("Two batches in flight", fmt.Sprintf("The load carried with one batch in flight and with two. Each of "+
		"two is half as fast, and both do as much as one, or a tenth more; or a\n"+
		"fiftieth of each batch, at its beginning, is copying, which takes no time from the other. The second is started "+
		"as soon as there is\n"+
		"something to run (at once), or when the first is unlikely to run for longer than %v yet (handed over), as on "+
		"the server's GPUs. Last, the part of\n"+
		"the device's busy time in which nothing computes, at load 1: the mean over the workloads, and the worst.",
		Handover))
	p.head(right, "device, and batches in flight", append(workloadNames(on), "geomean: it / "+all[0].Name,
		"worst: it / "+all[0].Name, "not computing", "worst")...)
	for i := range all {
		loads := f.Loads(&all[i], on)
		mean, worst := ratios(loads, f.Loads(&all[0], on))
		copying, most := 0.0, 0.0
		for _, w := range on {
			part := f.Carried[Pair{all[i].Name, w.Name}].Copying
			copying, most = copying+part/float64(len(on)), max(most, part)
		}
		p.row(all[i].Name, append(numbers(loads...), mean, worst, percent(copying), percent(most))...)
	}
}

// tuned writes the table that says which member of a family was chosen.
func (f *Findings) tuned(p *page) {
	s := f.Study
	families := slices.DeleteFunc(slices.Clone(s.Families), func(f Family) bool { return len(f.Members) < 2 })
	if len(families) == 0 {
		return
	}
	p.section("Tuned settings", "What was chosen for each workload and scene in a run of its own, with a seed that no "+
		"figure is found with. By draw of the models\n"+
		"where the choice is not the same for all.")
	var names []string
	for _, family := range families {
		names = append(names, family.Name)
	}
	p.head("---", "workload or scene", names...)
	row := func(name string, chosen func(Pair) string) {
		var cells []string
		for _, family := range families {
			cells = append(cells, chosen(Pair{family.Name, name}))
		}
		p.row(name, cells...)
	}
	for _, w := range s.Workloads {
		row(w.Name, func(at Pair) string { return settings(f.Carried[at].Tuned) })
	}
	for _, scene := range s.Scenes {
		row(scene.Name, func(at Pair) string { return f.Scenes[at].Policy })
	}
}
