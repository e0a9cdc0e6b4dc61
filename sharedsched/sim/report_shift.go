package sim

import (
	"fmt"
	"strconv"
	"time"
)

// shifts writes the tables of the worth of telemetry when the device changes.
func (f *Findings) shifts(p *printer) {
	s := f.Study
	var speed, memory []int
	for j := range s.Shifts {
		if s.Shifts[j].Workload.Device.Memory > 0 {
			memory = append(memory, j)
		} else {
			speed = append(speed, j)
		}
	}
	if len(s.Shifts) == 0 {
		return
	}
	name := s.Families[0].Name
	p.section("Telemetry", fmt.Sprintf("%s when the device changes, told so by telemetry or not: clock and share of "+
		"others are read every %v, memory every %v,\n"+
		"from a random time on. %d runs of %v for each scene.", name, sampled.Every, sampled.Memory,
		shiftRuns*s.Effort.Seeds, s.Effort.Span))
	if len(speed) > 0 {
		p.printf("The error is |actual / estimate - 1|; at once, the median of the first %d batches. It is back after "+
			"the last batch whose error is %.0f %% or\n"+
			"more, as are those of more than half of the latest %d since the change: so long after it, and so many "+
			"batches; the median over the\n"+
			"runs, and the worst. Missed are the requests not on time, of those of the second after the change, and "+
			"of all.\n\n",
			atOnce, 100*backUnder, judged)
		p.row("scene, and what is told",
			[]string{
				"change", "error at once", "back after", "worst", "batches", "worst", "missed in the second after",
				"missed",
			})
		p.rule(8)
		for _, j := range speed {
			f.shiftRows(p, j)
		}
	}
	if len(memory) > 0 {
		p.printf("\nWhat runs out of memory costs a run, and runs once more in halves.\n\n")
		p.row("scene, and what is told", []string{"batches out of memory in a run", "requests failed", "missed"})
		p.rule(3)
		for _, j := range memory {
			for i := range s.Shifts[j].Ways {
				t := &f.Shifts[j][i]
				p.row(s.Shifts[j].way(i),
					[]string{fmt.Sprintf("%.1f", t.OutOfMemory), percent(t.Failed), percent(t.Missed)})
			}
		}
	}
	p.printf("\n")
	for i := range s.Shifts {
		p.item(s.Shifts[i].Name, s.Shifts[i].About)
	}
}

func (s *Shift) way(i int) string { return s.Name + ", " + s.Ways[i].Name }

func (f *Findings) shiftRows(p *printer, j int) {
	for i := range f.Study.Shifts[j].Ways {
		t := &f.Shifts[j][i]
		for k := range t.After {
			a := &t.After[k]
			change := "sets in"
			if k > 0 {
				change = "is over"
			}
			p.row(f.Study.Shifts[j].way(i), []string{
				change, percent(a.Error), short(a.Back), short(a.WorstBack), strconv.Itoa(a.Batches),
				strconv.Itoa(a.WorstBatches),
				percent(a.Missed), percent(t.Missed),
			})
		}
	}
}

// short is a time in milliseconds, or in seconds if it is long.
func short(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
