package app

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// errFaults is the verdict where there was a fault.
var errFaults = errors.New("there are faults, see above")

// report prints what check finds, faults to the error stream.
type report struct {
	out, err io.Writer
	defaults bool // settings that are as by default are printed too
	faulty   bool
}

func (r *report) fault(err error) {
	r.faulty = true
	fmt.Fprintln(r.err, err)
}

// note tells of what is no fault and probably not meant.
func (r *report) note(text string) { fmt.Fprintln(r.err, "note: "+text) }

func (r *report) verdict() error {
	if r.faulty {
		return errFaults
	}
	return nil
}

// section prints settings below a heading.
func (r *report) section(heading string, settings, defaults any) {
	text, err := config.PrintChanged(settings, defaults)
	if r.defaults {
		text, err = config.Print(settings)
	}
	switch {
	case err != nil:
		r.fault(err)
	case text == "":
		fmt.Fprintf(r.out, "# %s: all settings are the defaults\n\n", heading)
	default:
		fmt.Fprintf(r.out, "# %s\n%s\n", heading, text)
	}
}

// listing prints every model's settings.
func (r *report) listing(l *modelrepo.Listing) {
	for _, fault := range l.Faults {
		r.fault(fault)
	}
	for i := range l.Models {
		m := &l.Models[i]
		if m.Err != nil {
			r.fault(m.Err)
			continue
		}
		source := m.ManifestPath
		if source == "" {
			source = m.Dir + " (it has no " + modelrepo.ManifestName + ")"
		}
		r.section("model "+m.Name+", "+source, &m.Manifest, modelrepo.Defaults())
		for _, v := range m.Versions {
			if v.Err != nil {
				r.fault(fmt.Errorf("model %s version %d: %w", m.Name, v.Number, v.Err))
			}
		}
		if m.Missing != nil {
			r.fault(m.Missing)
		}
		for _, note := range m.Notes {
			r.note(note)
		}
		for _, note := range m.Manifest.Batching.Notes() {
			r.note(m.ManifestPath + ": " + note)
		}
	}
}

// versions prints how each version that was loaded is served, and what it costs.
func (r *report) versions(l modelrepo.Listing, s *catalog.Snapshot, measured sharedsched.State) {
	for _, m := range l.Models {
		var alike []*catalog.Version // one after the other
		for _, selected := range m.Selected {
			v := s.Model(m.Name).Version(selected.Number)
			if v.State != catalog.Ready {
				r.fault(fmt.Errorf("model %s version %d: %w", v.Model, v.Number, faultOf(v)))
				continue
			}
			if len(alike) > 0 && describeVersion(alike[0]) != describeVersion(v) {
				r.alike(alike, measured)
				alike = nil
			}
			alike = append(alike, v)
		}
		r.alike(alike, measured)
		r.takeover(s.Model(m.Name))
	}
}

// alike prints versions of a model that are described alike, and what each costs.
func (r *report) alike(versions []*catalog.Version, measured sharedsched.State) {
	if len(versions) == 0 {
		return
	}
	var numbers []string
	for _, v := range versions {
		numbers = append(numbers, strconv.FormatInt(v.Number, 10))
	}
	of := "version"
	if len(versions) > 1 {
		of = "versions"
	}
	fmt.Fprintf(r.out, "# model %s %s %s, %s", versions[0].Model, of, strings.Join(numbers, ", "), describeVersion(versions[0]))
	for i, v := range versions {
		which := ""
		if len(versions) > 1 {
			which = "of version " + numbers[i] + " "
		}
		for _, m := range measured.Versions {
			if m.ID == sharedsched.VersionID(v.Scheduler) {
				printCosts(r.out, which, v.Signature, m.Costs)
			}
		}
	}
	fmt.Fprintln(r.out)
}

// takeover tells of a version that answers where clients expect what the one below it takes and returns.
func (r *report) takeover(m *catalog.Model) {
	if m == nil {
		return
	}
	newest := newestAnswers(m)
	if newest == nil {
		return
	}
	before := nextBelow(m, newest)
	if before == nil {
		return
	}
	if how := differs(before.Signature, newest.Signature); how != "" {
		r.note(fmt.Sprintf("model %s: version %d answers requests that name none, and does not take or return what version %d does: %s",
			m.Name, newest.Number, before.Number, how))
	}
}

// tolerances reports those that are for nothing, which only the signatures of loaded models tell.
func (r *report) tolerances(l modelrepo.Listing, s *catalog.Snapshot) {
	for _, m := range l.Models {
		served := s.Model(m.Name)
		if m.Err != nil || served == nil || served.Traffic == nil {
			continue
		}
		if err := served.Traffic.CheckOutputs(served); err != nil {
			r.fault(fmt.Errorf("%s: %w", m.ManifestPath, err))
		}
	}
}

// describeVersion tells where a version is, what it takes and returns, and how it is served.
func describeVersion(v *catalog.Version) string {
	w := &strings.Builder{}
	fmt.Fprintf(w, "on %s by %s\n", v.Device, v.Provider)
	for _, in := range v.Signature.Inputs {
		fmt.Fprintf(w, "input   %s\n", describeTensor(&in))
	}
	for _, out := range v.Signature.Outputs {
		fmt.Fprintf(w, "output  %s\n", describeTensor(&out))
	}
	served := "request by request"
	if v.Batching.Batched {
		served = fmt.Sprintf("in batches of up to %d rows", v.Batching.MaxBatchSize)
	}
	fmt.Fprintf(w, "served  %s: %s\n", served, v.Batching.Reason)
	if v.Batching.Proof != "" {
		fmt.Fprintf(w, "proof   %s\n", v.Batching.Proof)
	}
	if open := openLengths(v.Signature); v.Batching.Batched && open != "" {
		fmt.Fprintf(w, "open    %s: only requests of equal size there share an execution; batching.variable_dims makes them so\n", open)
	}
	if v.Batching.Obstacle != "" {
		fmt.Fprintf(w, "note    not proven by structure: %s\n", v.Batching.Obstacle)
	}
	for _, note := range v.Signature.Notes {
		fmt.Fprintf(w, "note    %s\n", note)
	}
	for i, other := range v.Replicas {
		if i > 0 {
			fmt.Fprintf(w, "also    on %s by %s\n", other.Device, other.Provider)
		}
	}
	if v.Scarce != "" {
		fmt.Fprintf(w, "note    %s\n", v.Scarce)
	}
	return w.String()
}

// openLengths names the dimensions of inputs whose size is the request's own, but for the batch and those that are padded; "" for none.
func openLengths(s *tensor.Signature) string {
	var all []string
	for i := range s.Inputs {
		in := &s.Inputs[i]
		for d, size := range in.Shape {
			if size == tensor.Unknown && d != in.BatchDim && (in.Variable == nil || in.Variable.Dim != d) {
				all = append(all, fmt.Sprintf("%s dimension %d", in.Name, d))
			}
		}
	}
	return strings.Join(all, ", ")
}

// printCosts prints the device time of executions that warm-up measured, after which version it is of; of a model with open dimensions there are as many
// lines as shapes were tried.
func printCosts(w io.Writer, which string, signature *tensor.Signature, shapes []sharedsched.CostState) {
	for _, shape := range shapes {
		var sizes []string
		for _, e := range shape.Entries {
			if e.Trusted {
				sizes = append(sizes, fmt.Sprintf("%d: %v", e.Rows, e.Median.Round(time.Microsecond)))
			}
		}
		if len(sizes) > 0 {
			fmt.Fprintf(w, "cost    %sby rows%s: %s\n", which, describeSizes(signature, shape.ShapeKey), strings.Join(sizes, ", "))
		}
	}
}

// describeSizes tells the sizes of open dimensions beside the batch that a cost is of, which tensor.Signature.ShapeKey lists; "" if there
// is no such dimension.
func describeSizes(s *tensor.Signature, key string) string {
	var sizes []string
	for _, in := range s.Inputs {
		shape, open := slices.Clone(in.Shape), false
		for d, size := range shape {
			if size == tensor.Unknown && d != in.BatchDim && len(key) >= 8 {
				shape[d], key, open = int64(binary.LittleEndian.Uint64([]byte(key))), key[8:], true
			}
		}
		if open {
			sizes = append(sizes, fmt.Sprintf("%s %v", in.Name, shape))
		}
	}
	if len(sizes) == 0 {
		return ""
	}
	return ", for " + strings.Join(sizes, " and ")
}

func describeTensor(s *tensor.Spec) string {
	text := fmt.Sprintf("%s %v %v", s.Name, s.DType, s.Shape)
	if s.BatchDim != tensor.NoBatch {
		text += fmt.Sprintf(", rows in dimension %d", s.BatchDim)
	}
	return text
}

// faultOf returns why a version is not ready.
func faultOf(v *catalog.Version) error {
	if v.Fault == nil {
		return errors.New(v.Cause)
	}
	return v.Fault
}
