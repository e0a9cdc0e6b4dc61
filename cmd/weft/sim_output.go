package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/weftserve/weft/internal/simplot"
	"github.com/weftserve/weft/sharedsched/sim"
)

// write puts the tables and plots into the folder of --out.
func (c *simCommand) write(found *sim.Findings) error {
	if err := os.MkdirAll(c.Out, 0o755); err != nil {
		return err
	}
	plots, err := c.plots(found)
	if err != nil {
		return err
	}
	return c.file("results.md", func(w io.Writer) error {
		if _, err := fmt.Fprintf(w, "# Simulated comparison\n\nWritten by `%s`.\n\n", c.again()); err != nil {
			return err
		}
		for _, plot := range plots {
			if _, err := fmt.Fprintf(w, "![%s](%s)\n", strings.TrimSuffix(plot, ".svg"), plot); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
		return found.Markdown(w)
	})
}

// again is the command line that gives the same results.
func (c *simCommand) again() string {
	line := "weft sim"
	if c.Quick {
		line += " --quick"
	}
	if len(c.Policies) > 0 {
		line += " --policies '" + strings.Join(c.Policies, ",") + "'"
	}
	if len(c.Workloads) > 0 {
		line += " --workloads '" + strings.Join(c.Workloads, ",") + "'"
	}
	if c.Seconds > 0 {
		line += fmt.Sprintf(" --seconds %g", c.Seconds)
	}
	if c.Seeds > 0 {
		line += fmt.Sprintf(" --seeds %d", c.Seeds)
	}
	return line
}

// plots draws the findings and returns the names of the files.
func (c *simCommand) plots(found *sim.Findings) ([]string, error) {
	s := found.Study
	if len(s.Workloads) == 0 {
		return nil, nil
	}
	var labels []string
	var carried []simplot.Series
	for _, w := range s.Workloads {
		labels = append(labels, w.Name)
	}
	for i, f := range s.Families {
		carried = append(carried, simplot.Series{Name: f.Name, Values: found.G99[i]})
	}
	names := []string{"g99.svg"}
	err := c.file(names[0], func(w io.Writer) error {
		return simplot.Bars(w, "Highest load with 99 % on time", "of the fluid capacity", labels, carried)
	})
	if err != nil {
		return nil, err
	}
	for j, workload := range s.Workloads {
		var shares []simplot.Series
		for i, f := range s.Families {
			shares = append(shares, simplot.Series{Name: f.Name, Values: found.Curves[i][j]})
		}
		name := "load-" + workload.Name + ".svg"
		names = append(names, name)
		err := c.file(name, func(w io.Writer) error {
			return simplot.Lines(w, "Share on time: "+workload.Name, "share of requests", "load, of the fluid capacity", s.Loads, shares)
		})
		if err != nil {
			return nil, err
		}
	}
	return names, nil
}

func (c *simCommand) file(name string, write func(io.Writer) error) error {
	file, err := os.Create(filepath.Join(c.Out, name))
	if err != nil {
		return err
	}
	if err := write(file); err != nil {
		return fmt.Errorf("%s: %w", file.Name(), err)
	}
	return file.Close()
}
