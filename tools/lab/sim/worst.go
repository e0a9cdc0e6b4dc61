package sim

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// Worst is the workload, of many that were drawn, on which the scheduler carries least compared with another family.
// Searches find them (`bin/simulate --search`), and tests keep them.
type Worst struct {
	Seed  uint64
	Ratio float64 // the scheduler's load over the other's
	Rival string  // the other family
}

// SearchEffort is the effort with which workloads are searched, and found ones are played again.
var SearchEffort = Effort{Seeds: 1, Precision: Quick.Precision}

// Worst returns the worst workload against each family but the first.
func (m *Matches) Worst() []Worst {
	all := make([]Worst, len(m.Families)-1)
	for f := range all {
		w := &all[f]
		w.Rival = m.Families[f+1]
		for i := range m.All {
			one := &m.All[i]
			if r := over(mean(one.Carried[0]), mean(one.Carried[f+1])); w.Seed == 0 || r < w.Ratio {
				w.Seed, w.Ratio = one.Seed, r
			}
		}
	}
	return all
}

// WriteWorst writes a line for each: seed, ratio and rival.
func WriteWorst(out io.Writer, all []Worst) error {
	for i := range all {
		if _, err := fmt.Fprintf(out, "%d %.3f %s\n", all[i].Seed, all[i].Ratio, all[i].Rival); err != nil {
			return err
		}
	}
	return nil
}

// ReadWorst reads what WriteWorst wrote.
func ReadWorst(in io.Reader) (all []Worst, err error) {
	lines := bufio.NewScanner(in)
	for n := 1; lines.Scan(); n++ {
		var w Worst
		words := strings.SplitN(lines.Text(), " ", 3)
		if _, err := fmt.Sscan(lines.Text(), &w.Seed, &w.Ratio); err != nil || len(words) < 3 {
			return nil, fmt.Errorf("line %d: %q is not a seed, a ratio and a family", n, lines.Text())
		}
		w.Rival = words[2]
		all = append(all, w)
	}
	return all, lines.Err()
}
