package app

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// json writes the findings as indented JSON. Characters of HTML are not escaped: the reader is a program or a person at
// a terminal.
func (f *Findings) json(out io.Writer) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(f)
}

// text writes the findings for people: settings first, then how versions are served, both to out; notes and faults to
// errs, where they remain visible if out is piped elsewhere.
func (f *Findings) text(out, errs io.Writer) {
	section(out, "server", f.Settings)
	for i := range f.Models {
		m := &f.Models[i]
		source := cmp.Or(m.Manifest, m.Config, m.Directory+" (it has no "+modelrepo.ManifestName+")")
		if m.Manifest != "" && m.Config != "" {
			source += " over " + modelrepo.TritonConfigName
		}
		section(out, "model "+m.Name+", "+source, m.Settings)
	}
	for i := range f.Models {
		f.Models[i].text(out)
	}
	for _, note := range f.Notes {
		fmt.Fprintln(errs, "note: "+note)
	}
	for _, fault := range f.Faults {
		fmt.Fprintln(errs, fault)
	}
}

// section prints settings below a heading, as YAML that a settings file could have.
func section(out io.Writer, heading string, settings config.Text) {
	if settings == "" {
		fmt.Fprintf(out, "# %s: all settings are the defaults\n\n", heading)
	} else {
		fmt.Fprintf(out, "# %s\n%s\n", heading, settings)
	}
}

// text writes how the versions are served. Consecutive versions that are served alike share one description, because a
// repository may have hundreds; costs are listed for each.
func (m *ModelFindings) text(out io.Writer) {
	for rest := m.Versions; len(rest) > 0; {
		alike := 1
		for alike < len(rest) && rest[alike].served() == rest[0].served() {
			alike++
		}
		var numbers []string
		for i := range rest[:alike] {
			numbers = append(numbers, strconv.FormatInt(rest[i].Version, 10))
		}
		of := "version"
		if alike > 1 {
			of = "versions"
		}
		fmt.Fprintf(out, "# model %s %s %s, %s", m.Name, of, strings.Join(numbers, ", "), rest[0].served())
		for i := range rest[:alike] {
			which := ""
			if alike > 1 {
				which = "of version " + numbers[i] + " "
			}
			for _, cost := range rest[i].Costs {
				fmt.Fprintf(out, "cost    %sby rows%s\n", which, cost.text())
			}
		}
		fmt.Fprintln(out)
		rest = rest[alike:]
	}
}

// served describes a version without its number and its costs. Versions with equal texts are served alike.
func (v *VersionFindings) served() string {
	w := &strings.Builder{}
	fmt.Fprintf(w, "on %s by %s\n", v.Device, v.Provider)
	for _, step := range v.Steps {
		fmt.Fprintf(w, "step    %s\n", step)
	}
	for _, in := range v.Inputs {
		fmt.Fprintf(w, "input   %s\n", in.text())
	}
	for _, out := range v.Outputs {
		fmt.Fprintf(w, "output  %s\n", out.text())
	}
	served := "request by request"
	if v.Batched {
		served = fmt.Sprintf("in batches of up to %d rows", v.MaxBatchSize)
	}
	fmt.Fprintf(w, "served  %s: %s\n", served, v.Reason)
	if v.Proof != "" {
		fmt.Fprintf(w, "proof   %s\n", v.Proof)
	}
	if len(v.OpenLengths) > 0 {
		fmt.Fprintf(w, "open    %s: only requests of equal size there share an execution; batching.variable_dims "+
			"makes them so\n", strings.Join(v.OpenLengths, ", "))
	}
	if v.State != nil {
		fmt.Fprintf(w, "state   %s\n", v.State.text())
	}
	if v.Unproven != "" {
		fmt.Fprintf(w, "note    not proven by structure: %s\n", v.Unproven)
	}
	for _, also := range v.Also {
		fmt.Fprintf(w, "also    %s\n", also)
	}
	for _, note := range v.Notes {
		fmt.Fprintf(w, "note    %s\n", note)
	}
	return w.String()
}

// text is such as "h <- hn, hist <- 8 of obs; 2KiB for each row of an episode; up to 10000 episodes, 1m idle".
func (s *StateFindings) text() string {
	var kept, takes []string
	for _, in := range s.Inputs {
		of := in.Of
		if in.Steps > 0 {
			of = fmt.Sprintf("%d of %s", in.Steps, of)
		}
		kept = append(kept, in.Input+" <- "+of)
	}
	kept = append(kept, s.Controls...)
	if s.RowBytes > 0 || s.Bytes == 0 {
		takes = append(takes, fmt.Sprintf("%v for each row of an episode", config.Size(s.RowBytes)))
	}
	if s.Bytes > 0 {
		takes = append(takes, fmt.Sprintf("%v for each episode", config.Size(s.Bytes)))
	}
	if s.Growing != nil {
		takes = append(takes, "more as "+strings.Join(s.Growing, ", ")+" grow")
	}
	text := fmt.Sprintf("%s; %s; up to %d episodes, %s idle", strings.Join(kept, ", "), strings.Join(takes, ", "),
		s.MaxEpisodes, s.Idle)
	if s.Found {
		text += "; found by names and shapes, kept of episodes that begin (begin_episode) without it; state: none in " +
			modelrepo.ManifestName + " says no"
	}
	return text
}

// text is such as "x float32 [-1 4], rows in dimension 0".
func (t *TensorFindings) text() string {
	text := fmt.Sprintf("%s %s %v", t.Name, t.DType, t.Shape)
	if t.BatchDim != nil {
		text += fmt.Sprintf(", rows in dimension %d", *t.BatchDim)
	}
	if t.Shown != nil {
		text += fmt.Sprintf(", %v for clients of Triton", t.Shown)
	}
	return text
}

// text is such as ", for ids [-1 128]: 1: 210µs, 8: 300µs", with rows before the times.
func (c *CostFindings) text() string {
	var costs []string
	for _, e := range c.Executions {
		cost := time.Duration(e.MedianUs * float64(time.Microsecond)).Round(time.Microsecond)
		costs = append(costs, fmt.Sprintf("%d: %v", e.Rows, cost))
	}
	sizes := ""
	if c.Sizes != "" {
		sizes = ", for " + c.Sizes
	}
	return sizes + ": " + strings.Join(costs, ", ")
}
