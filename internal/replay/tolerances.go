package replay

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server/wire"
)

// tolerances are the differences up to which outputs agree, relative to the largest magnitude of the recorded output.
type tolerances struct {
	Tolerance  float64            `default:"0.001" help:"Largest difference of equal floating-point elements, relative to the largest magnitude of the recorded output."`
	Tolerances map[string]float64 `mapsep:"," help:"Tolerances of single floating-point outputs; 0: equal values." placeholder:"OUTPUT=NUMBER,..."`
}

// of returns the tolerance of an output.
func (t *tolerances) of(output string) float64 {
	if own, ok := t.Tolerances[output]; ok {
		return own
	}
	return t.Tolerance
}

// check refuses numbers that are no tolerances, NaN among them.
func (t *tolerances) check() error {
	if !isTolerance(t.Tolerance) {
		return wrong("--tolerance", "expected a number of at least 0, found %v", t.Tolerance)
	}
	for _, output := range slices.Sorted(maps.Keys(t.Tolerances)) {
		if own := t.Tolerances[output]; !isTolerance(own) {
			return wrong("--tolerances", "%s: expected a number of at least 0, found %v", output, own)
		}
	}
	return nil
}

// isTolerance is false for NaN, too.
func isTolerance(number float64) bool { return number >= 0 && !math.IsInf(number, 0) }

// checkOutputs refuses tolerances of names that are not floating point outputs of the model: a misspelt one would
// compare the output by the general tolerance.
func (t *tolerances) checkOutputs(s *weftv1.Signature) error {
	var floats, quoted []string
	for _, output := range s.GetOutputs() {
		if wire.DType(output.GetDtype()).IsFloat() {
			floats, quoted = append(floats, output.GetName()), append(quoted, strconv.Quote(output.GetName()))
		}
	}
	for _, output := range slices.Sorted(maps.Keys(t.Tolerances)) {
		if !slices.Contains(floats, output) {
			return wrong("--tolerances", "expected floating point outputs (%s), found %q",
				cmp.Or(strings.Join(quoted, ", "), "it has none"), output)
		}
	}
	return nil
}

// text returns the tolerances as the report shows them.
func (t *tolerances) text() string {
	parts := []string{fmt.Sprintf("%g", t.Tolerance)}
	for _, output := range slices.Sorted(maps.Keys(t.Tolerances)) {
		parts = append(parts, fmt.Sprintf("%s within %g", output, t.Tolerances[output]))
	}
	return strings.Join(parts, ", ")
}
