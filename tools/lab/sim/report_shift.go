package sim

import (
	"fmt"
	"strconv"
	"time"
)

// shifts writes the tables of the worth of telemetry when the device changes.
func (f *Findings) shifts(p *page) {
	s := f.Study
	if len(s.Shifts) == 0 {
		return
	}
	// Tables are written once it is known that they have a row.
	var speed, memory, about page
	for _, shift := range s.Shifts {
		about.item(shift.Name, shift.About)
		for _, way := range shift.Ways {
			told := f.Shifts[Pair{way.Name, shift.Name}]
			name := shift.Name + ", " + way.Name
			if shift.Workload.Device.Memory > 0 {
				memory.row(name, fmt.Sprintf("%.1f", told.OutOfMemory), percent(told.Failed), percent(told.Missed))
				continue
			}
			for k, a := range told.After {
				speed.row(name, []string{"sets in", "is over"}[min(k, 1)], percent(a.Median.Error),
					short(a.Median.Back), short(a.Worst.Back),
					strconv.Itoa(a.Median.Batches), strconv.Itoa(a.Worst.Batches),
					percent(a.Missed), percent(told.Missed))
			}
		}
	}
	p.section("Telemetry", fmt.Sprintf("%s when the device changes, told so by telemetry or not: clock and share of "+
		"others are read every %v, memory every %v,\n"+
		"from a random time on. %d runs of %v for each scene.", s.Families[0].Name, sampled.Every, sampled.Memory,
		shiftRuns*s.Effort.Seeds, s.Effort.Span))
	const first = "scene, and what is told"
	if speed.Len() > 0 {
		p.printf("The error is |actual / estimate - 1|; at once, the median of the first %d batches. It is back after "+
			"the last batch whose error is %.0f %% or\n"+
			"more, as are those of more than half of the latest %d since the change: so long after it, and so many "+
			"batches; the median over the\n"+
			"runs, and the worst. Missed are the requests not on time, of those of the second after the change, and "+
			"of all.\n\n",
			atOnce, 100*backUnder, judged)
		p.head(right, first, "change", "error at once", "back after", "worst", "batches", "worst",
			"missed in the second after", "missed")
		p.printf("%s", speed.String())
	}
	if memory.Len() > 0 {
		p.printf("\nWhat runs out of memory costs a run, and runs once more in halves.\n\n")
		p.head(right, first, "batches out of memory in a run", "requests failed", "missed")
		p.printf("%s", memory.String())
	}
	p.printf("\n%s", about.String())
}

// short is a time in milliseconds, or in seconds if it is long.
func short(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
