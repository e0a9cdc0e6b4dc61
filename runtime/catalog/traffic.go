package catalog

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weftserve/weft/runtime/tensor"
)

// Traffic is how the requests of a model that name neither a version nor a label are divided among its versions. It is
// immutable.
type Traffic struct {
	// Revision grows with every change of this model's traffic. A change says which one it is based on.
	Revision uint64 `json:"revision"`
	// Split are the parts. Empty: the newest ready version answers that was not rolled back.
	Split []Slot `json:"split,omitempty"`
	// Shadow are versions that are shown the same requests and whose answers only count.
	Shadow []Shadow `json:"shadow,omitempty"`
	// Source is where it is from: "default", "model.yaml", "SetTraffic" or "rollout".
	Source string `json:"source"`
	// By is the author: the address of a caller, "gate" or "weft"; "" where that is the Source.
	By string `json:"by,omitempty"`
	// At is when that was; for traffic from model.yaml, when the server first saw it.
	At time.Time `json:"at,omitzero"`
}

// Divides reports whether the traffic divides requests as another one does, whatever their origin. Nil divides nothing.
func (t *Traffic) Divides(like *Traffic) bool {
	var a, b Traffic
	if t != nil {
		a = *t
	}
	if like != nil {
		b = *like
	}
	return slices.Equal(a.Split, b.Split) && slices.EqualFunc(a.Shadow, b.Shadow, func(a, b Shadow) bool {
		return a.Version == b.Version && a.Sample == b.Sample && a.PerRequest == b.PerRequest &&
			a.Tolerance == b.Tolerance &&
			maps.Equal(a.Tolerances, b.Tolerances)
	})
}

// DefaultSlot is the name of the part that has everything, of a model whose traffic is not divided.
const DefaultSlot = "prod"

// Slot is one part of a split.
type Slot struct {
	Name    string `json:"slot"` // unique within the split
	Version int64  `json:"version"`
	// relative to the sum of all; 0: new episodes only while no slot with weight is ready
	Weight float64 `json:"weight"`
}

func (s Slot) String() string {
	return fmt.Sprintf("%s: version %d, weight %v", s.Name, s.Version, s.Weight)
}

// Shadow is a version in the shadow of the one that answers. It is immutable.
type Shadow struct {
	Version int64   `json:"version"`
	Sample  float64 `json:"sample"` // part of the requests, above 0 up to 1
	// PerRequest samples requests one by one. Else all requests of an episode are shown or none.
	PerRequest bool `json:"per_request,omitempty"`
	// Tolerance is the largest difference between elements with which outputs agree, relative to the output's largest
	// magnitude; 0: DefaultTolerance.
	Tolerance float64 `json:"tolerance,omitempty"`
	// Tolerances are those of outputs that have one of their own, by name; 0: equal values.
	Tolerances map[string]float64 `json:"tolerances,omitempty"`
}

// ToleranceOf returns the tolerance of an output.
func (s *Shadow) ToleranceOf(output string) float64 {
	if own, ok := s.Tolerances[output]; ok {
		return own
	}
	return cmp.Or(s.Tolerance, DefaultTolerance)
}

// CheckOutputs says which tolerance is for nothing, given the signature of the shadow's version: because that has no
// such output, or because the output's elements are no floating point numbers, which agree if they are equal. Nil:
// none.
func (s *Shadow) CheckOutputs(signature *tensor.Signature) *TrafficError {
	for _, name := range slices.Sorted(maps.Keys(s.Tolerances)) {
		at := signature.Output(name)
		if at >= 0 && signature.Outputs[at].DType.IsFloat() {
			continue
		}
		floats := []string{}
		for i := range signature.Outputs {
			if o := &signature.Outputs[i]; o.DType.IsFloat() {
				floats = append(floats, strconv.Quote(o.Name))
			}
		}
		err := &TrafficError{
			Field: "tolerances",
			Want: fmt.Sprintf("floating point outputs of version %d (%s)", s.Version,
				cmp.Or(strings.Join(floats, ", "), "it has none")),
			Got: strconv.Quote(name),
		}
		if at >= 0 {
			err.Got += fmt.Sprintf(", which is %v and agrees only if it is equal", signature.Outputs[at].DType)
		}
		return err
	}
	return nil
}

// DefaultTolerance is the tolerance of a shadow that has none of its own.
const DefaultTolerance = 1e-3

// SlotOf returns the name of the first slot that leads to a version, "" if none does.
func (t *Traffic) SlotOf(version int64) string {
	for _, s := range t.Split {
		if s.Version == version {
			return s.Name
		}
	}
	return ""
}

// Check returns a *TrafficError if the traffic is wrong in itself; it does not check whether its versions are there.
func (t *Traffic) Check() error {
	seen := map[string]bool{}
	sum := 0.0
	for i, s := range t.Split {
		field := fmt.Sprintf("split[%d]", i)
		switch {
		case s.Name == "":
			return &TrafficError{field + ".slot", "a name", "none"}
		case seen[s.Name]:
			return &TrafficError{field + ".slot", "a name of its own", fmt.Sprintf("%q again", s.Name)}
		case s.Version < 1:
			return &TrafficError{field + ".version", "a positive number", strconv.FormatInt(s.Version, 10)}
		case !(s.Weight >= 0) || math.IsInf(s.Weight, 0):
			return &TrafficError{field + ".weight", "a number of at least 0", fmt.Sprint(s.Weight)}
		}
		seen[s.Name] = true
		sum += s.Weight
	}
	if len(t.Split) > 0 && !(sum > 0) {
		return &TrafficError{"split", "at least one weight above 0", "none"}
	}
	for i, s := range t.Shadow {
		field := fmt.Sprintf("shadow[%d]", i)
		switch {
		case s.Version < 1:
			return &TrafficError{field + ".version", "a positive number", strconv.FormatInt(s.Version, 10)}
		case !(s.Sample > 0 && s.Sample <= 1):
			return &TrafficError{field + ".sample", "a number above 0 up to 1", fmt.Sprint(s.Sample)}
		case !(s.Tolerance >= 0) || math.IsInf(s.Tolerance, 0):
			return &TrafficError{field + ".tolerance", "a number of at least 0", fmt.Sprint(s.Tolerance)}
		}
		for _, name := range slices.Sorted(maps.Keys(s.Tolerances)) {
			switch own := s.Tolerances[name]; {
			case name == "":
				return &TrafficError{field + ".tolerances", "the names of outputs", `""`}
			case !(own >= 0) || math.IsInf(own, 0):
				return &TrafficError{
					fmt.Sprintf("%s.tolerances[%q]", field, name), "a number of at least 0",
					fmt.Sprint(own),
				}
			}
		}
		for _, other := range t.Shadow[:i] {
			if other.Version == s.Version {
				return &TrafficError{field + ".version", "each version once", fmt.Sprintf("%d again", s.Version)}
			}
		}
	}
	return nil
}

// CheckOutputs returns a *TrafficError if a shadow has a tolerance for a name that is no floating point output of its
// version. Versions that are not there, or have no signature yet, are passed over.
func (t *Traffic) CheckOutputs(m *Model) error {
	for i := range t.Shadow {
		s := &t.Shadow[i]
		v := m.Version(s.Version)
		if v == nil || v.Signature == nil {
			continue
		}
		if e := s.CheckOutputs(v.Signature); e != nil {
			return &TrafficError{fmt.Sprintf("shadow[%d].%s", i, e.Field), e.Want, e.Got}
		}
	}
	return nil
}

// TrafficError says which part of a traffic table is wrong.
type TrafficError struct{ Field, Want, Got string }

func (e *TrafficError) Error() string {
	return fmt.Sprintf("traffic.%s: expected %s, found %s", e.Field, e.Want, e.Got)
}
