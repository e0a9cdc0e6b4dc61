package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/weftserve/weft/tools/lab/sim"
)

// write puts the tables and plots of a command's findings into a folder.
func write(found *sim.Findings, folder, by string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	page := &strings.Builder{}
	fmt.Fprintf(page, "# Simulated comparison\n\nWritten by `%s`. [README.md](README.md) explains the figures.\n\n", by)
	for _, p := range plots(found) {
		fmt.Fprintf(page, "![%s](%s.svg)\n", p.name, p.name)
		if err := os.WriteFile(filepath.Join(folder, p.name+".svg"), []byte(p.svg), 0o644); err != nil {
			return err
		}
	}
	page.WriteString("\n")
	if err := found.Markdown(page); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "results.md"), []byte(page.String()), 0o644)
}

type plot struct{ name, svg string }

// plots draws the loads carried, and how each workload fares as its load grows.
func plots(found *sim.Findings) []plot {
	s := found.Study
	if len(s.Workloads) == 0 {
		return nil
	}
	var labels []string
	for _, w := range s.Workloads {
		labels = append(labels, w.Name)
	}
	all := func(values func(*sim.Family) []float64) []series {
		var all []series
		for i := range s.Families {
			all = append(all, series{s.Families[i].Name, values(&s.Families[i])})
		}
		return all
	}
	carried := all(func(f *sim.Family) []float64 { return found.Loads(f, s.Workloads) })
	drawn := []plot{{"g99", bars("Highest load with 99 % on time", "of the fluid capacity", labels, carried)}}
	for _, name := range labels {
		shares := all(func(f *sim.Family) []float64 {
			return found.Carried[sim.Pair{Policy: f.Name, On: name}].Curve
		})
		drawn = append(drawn, plot{"load-" + name, lines("Share on time: "+name, "share of requests",
			"load, of the fluid capacity", s.Loads, shares)})
	}
	return drawn
}
