package sim

import (
	"fmt"
	"time"
)

// handover is that of the server's GPUs.
const handover = 2 * time.Millisecond

// InFlight returns the server's scheduler with one batch in flight and with two, on devices on which two gain nothing,
// some work, or the time in which one of them copies. With two the other lane takes a batch at once, or by the handover
// of the server's GPUs.
func InFlight() []Maker {
	one := Core("one at a time", CoreOptions{})
	one.Copying = 0.1 // changes nothing there: a batch takes as long
	all := []Maker{one}
	for _, device := range []struct {
		name             string
		overlap, copying float64
	}{{"two gain nothing", 1, 0}, {"two do 10 % more", 1.1, 0}, {"a tenth is copying", 1, 0.1}} {
		for _, m := range []Maker{
			Core(device.name+": two at once", CoreOptions{}),
			Core(device.name+": handed over", CoreOptions{Handover: handover}),
		} {
			m.Lanes = func(int) int { return 2 }
			m.Overlap, m.Copying = device.overlap, device.copying
			all = append(all, m)
		}
	}
	return all
}

// Flown holds the results of a number of batches in flight.
type Flown struct {
	G99     float64
	Copying float64 // the part of the device's busy time in which no batch computes, at load 1
}

// fly plays a workload of the suite.
func (f *Findings) fly(i, j int) error {
	w, m := &f.Study.Workloads[j], &f.Study.InFlight[i]
	if w.Further {
		return nil
	}
	e := f.Study.effort(j)
	g, err := G99(w, m, e)
	if err != nil {
		return fmt.Errorf("%s on %s: %w", m.Name, w.Name, err)
	}
	r, err := w.Play(m, 1, e.Span, e.seed(0))
	if err != nil {
		return fmt.Errorf("%s on %s: %w", m.Name, w.Name, err)
	}
	f.InFlight[i][j] = Flown{G99: g, Copying: float64(r.Busy-r.Computed) / float64(r.Busy)}
	f.Study.progress("g99 of %s on %s: %.2f", m.Name, w.Name, g)
	return nil
}

// inFlight writes the table of the worth of a second batch in flight.
func (f *Findings) inFlight(p *printer) {
	s := f.Study
	columns := s.columns(false)
	if len(s.InFlight) == 0 || len(columns) == 0 {
		return
	}
	p.section("Two batches in flight", fmt.Sprintf("The load carried with one batch in flight and with two. Each of "+
		"two is half as fast, and both do as much as one, or a tenth more; or a\n"+
		"tenth of each batch, at its beginning, is copying, which takes no time from the other. The second is started "+
		"as soon as there is\n"+
		"something to run (at once), or when a tenth of the first is left, or %v if that is more (handed over), as on "+
		"the server's GPUs. Last, the part of\n"+
		"the device's busy time in which nothing computes, at load 1: the mean over the workloads, and the worst.",
		handover))
	first := s.InFlight[0].Name
	p.row("device, and batches in flight", s.names(columns), "geomean: it / "+first, "worst: it / "+first,
		"not computing", "worst")
	p.rule(len(columns) + 4)
	carried := func(i int) (loads []float64, copying, most float64) {
		for _, j := range columns {
			it := &f.InFlight[i][j]
			loads = append(loads, it.G99)
			copying += it.Copying / float64(len(columns))
			most = max(most, it.Copying)
		}
		return loads, copying, most
	}
	one, _, _ := carried(0)
	for i := range s.InFlight {
		loads, copying, most := carried(i)
		mean, worst := ratios(loads, one)
		p.row(s.InFlight[i].Name, numbers(loads), mean, worst, percent(copying), percent(most))
	}
}
