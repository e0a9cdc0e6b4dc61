package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/weftserve/weft/sharedsched/sim"
)

// write puts the tables and plots of a command's findings into a folder.
func write(found *sim.Findings, folder, by string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	page := &strings.Builder{}
	fmt.Fprintf(page, "# Simulated comparison\n\nWritten by `%s`. [README.md](README.md) explains the figures.\n\n", by)
	draw := func(name string, chart func(io.Writer) error) error {
		svg := &strings.Builder{}
		if err := chart(svg); err != nil {
			return err
		}
		fmt.Fprintf(page, "![%s](%s.svg)\n", name, name)
		return os.WriteFile(filepath.Join(folder, name+".svg"), []byte(svg.String()), 0o644)
	}
	if err := plots(found, draw); err != nil {
		return err
	}
	page.WriteString("\n")
	if err := found.Markdown(page); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "results.md"), []byte(page.String()), 0o644)
}

// plots draws the loads carried, and how each workload fares as its load grows.
func plots(found *sim.Findings, draw func(name string, chart func(io.Writer) error) error) error {
	s := found.Study
	if len(s.Workloads) == 0 {
		return nil
	}
	var labels []string
	var carried []series
	for _, w := range s.Workloads {
		labels = append(labels, w.Name)
	}
	for _, f := range s.Families {
		carried = append(carried, series{Name: f.Name, Values: found.Loads(&f, s.Workloads)})
	}
	err := draw("g99", func(w io.Writer) error {
		return bars(w, "Highest load with 99 % on time", "of the fluid capacity", labels, carried)
	})
	for _, workload := range s.Workloads {
		if err != nil {
			return err
		}
		var shares []series
		for _, f := range s.Families {
			shares = append(shares, series{f.Name, found.Carried[sim.Pair{Policy: f.Name, On: workload.Name}].Curve})
		}
		err = draw("load-"+workload.Name, func(w io.Writer) error {
			return lines(w, "Share on time: "+workload.Name, "share of requests", "load, of the fluid capacity",
				s.Loads, shares)
		})
	}
	return err
}
