package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

func list(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for i := range attacks {
		a := &attacks[i]
		fmt.Fprintf(w, "%s\t%s\t%s\n", a.name, a.cap(), a.about)
	}
	return w.Flush()
}

// cap says how fast an attack is at most.
func (a *attack) cap() string {
	text := fmt.Sprintf("%.0f %s/s", a.rate, a.unit)
	if a.rate == 0 {
		text = fmt.Sprintf("%d %s", a.connections, a.unit)
	}
	if a.most > 0 {
		text += fmt.Sprintf(", %d a connection", a.most)
	}
	return text
}

// publish writes the tables as Markdown.
func (c *runCommand) publish(all []table) error {
	var text strings.Builder
	fmt.Fprintf(&text, "# What attacks cost\n\nWritten by `make attack`; [BENCHMARKING.md](../BENCHMARKING.md) describes "+
		"the figures. %s\n\nRounds: %d of %v, beside a control each. The server has one processor, the attacker and the "+
		"honest callers another.\n", c.machine(), c.effort().rounds, c.effort().span)
	for _, t := range all {
		t.markdown(&text)
	}
	return os.WriteFile(c.Out, []byte(text.String()), 0o644)
}

// machine says where, when and what was measured.
func (c *runCommand) machine() string {
	version, _ := exec.Command(c.Weft, "version").Output() //nolint:noctx // it prints a line; "" where it cannot
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease") // "" where there is none
	info, _ := os.ReadFile("/proc/cpuinfo")
	_, rest, _ := strings.Cut(string(info), "model name")
	processor, _, _ := strings.Cut(rest, "\n")
	return fmt.Sprintf("%s, %d processors (%s), Linux %s, %s, %s.", time.Now().UTC().Format("2006-01-02"),
		runtime.NumCPU(), strings.Trim(processor, "\t :"), strings.TrimSpace(string(kernel)), runtime.Version(),
		strings.TrimSpace(string(version)))
}

// counted says how often what was seen, most often first.
func counted(counts map[string]int) string {
	keys := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		if counts[a] != counts[b] {
			return counts[b] - counts[a]
		}
		return strings.Compare(a, b)
	})
	for i, k := range keys {
		keys[i] = fmt.Sprintf("%d × %s", counts[k], k)
	}
	return strings.Join(keys, "; ")
}
