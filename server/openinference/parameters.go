package openinference

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/routing"
	"github.com/weftserve/weft/server/web"
	"github.com/weftserve/weft/sharedsched"
)

// asked is what the parameters of a request ask for.
type asked struct {
	episode  string // "": none
	begin    bool   // it is the first request of its episode
	end      bool   // it is the last one
	step     uint64 // of the episode; 0: it has no number
	priority sharedsched.Priority
	chosen   bool          // the caller has named the priority
	timeout  time.Duration // 0: none
	target   time.Duration // 0: the model's
	label    string        // of the version that is to answer; "": none
	trace    string        // the W3C traceparent of the request
	final    bool          // answers of a stream say that they are the last of their request
}

// priorities are those of the levels. Level 1 is the highest and 0 the usual one; levels beyond the last count as the
// last.
var priorities = [...]sharedsched.Priority{
	sharedsched.Critical, sharedsched.CriticalPlus, sharedsched.Critical, sharedsched.SheddablePlus,
	sharedsched.Sheddable,
}

// ask reads the parameters of a request, and sets the classes of its outputs. It passes over parameters that Weft does
// not know, but refuses other names that Triton reserves, since a caller that sends one counts on what it does. The
// error is a *tensor.FieldError.
func (r *request) ask() (asked, error) {
	var a asked
	err := each(r.in.GetParameters(), func(key string, p value) (ok bool, want string) {
		switch key {
		case "sequence_id", "routing_key":
			a.episode, ok = p.name()
			return ok, "a text or a number"
		case "triton_final_response":
			return set(new(bool), p), "a bool" // it changes nothing here
		case "sequence_start":
			return set(&a.begin, p), "a bool"
		case "sequence_end":
			return set(&a.end, p), "a bool"
		case "sequence_step":
			a.step, ok = p.natural()
			return ok, "a number that is not negative"
		case "triton_enable_empty_final_response":
			return set(&a.final, p), "a bool"
		case "priority":
			level, ok := p.natural()
			a.priority, a.chosen = priorities[min(level, uint64(len(priorities)-1))], level > 0
			return ok, "a number that is not negative"
		case "timeout":
			a.timeout, ok = p.duration()
			return ok, "microseconds that are not negative"
		case "target_latency":
			a.target, ok = p.duration()
			return ok, "microseconds that are not negative"
		case "label":
			return set(&a.label, p), "a text"
		case "traceparent":
			return set(&a.trace, p), "a text"
		}
		return !strings.HasPrefix(key, "triton_"), "none of the parameters that Triton reserves"
	})
	if err != nil {
		return a, err
	}
	for i := range r.outputs {
		o := &r.outputs[i]
		p, is := o.GetParameters()["classification"]
		if !is {
			continue
		}
		if o.classes, is = valueOf(p).natural(); !is || o.classes == 0 {
			return a, web.InPart(outputField(o.GetName()),
				wrongParameter("classification", "how many classes, 1 at least", valueOf(p)))
		}
	}
	return a, nil
}

// each has a function look at parameters in the order of their names, so that of two faults the same one is always
// named. It says whether one is as it should be, and if not, what was expected. The error is a *tensor.FieldError.
func each(all map[string]*inference.InferParameter, look func(key string, p value) (ok bool, want string)) error {
	if len(all) == 0 {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		p := valueOf(all[key])
		if ok, want := look(key, p); !ok {
			return wrongParameter(key, want, p)
		}
	}
	return nil
}

// wrongParameter is the error of a parameter that is not as it should be.
func wrongParameter(key, want string, p value) error {
	return &tensor.FieldError{Field: "parameters" + parameterKey(key), Want: want, Got: p.String()}
}

// parameterKey is how errors name an entry of a map.
func parameterKey(key string) string { return "[" + routing.Quote(key) + "]" }

// value is the value of a parameter or of a setting: a bool, a string, an int64, a uint64, a float64, or nil for none.
// It comes from gRPC or from JSON, and is read in the same way.
type value struct{ any }

// valueOf returns the value of a parameter.
func valueOf(p *inference.InferParameter) value {
	switch c := p.GetParameterChoice().(type) {
	case *inference.InferParameter_BoolParam:
		return value{c.BoolParam}
	case *inference.InferParameter_Int64Param:
		return value{c.Int64Param}
	case *inference.InferParameter_StringParam:
		return value{c.StringParam}
	case *inference.InferParameter_DoubleParam:
		return value{c.DoubleParam}
	case *inference.InferParameter_Uint64Param:
		return value{c.Uint64Param}
	}
	return value{}
}

// set sets a variable to a value, and reports whether that has its type; else it leaves the variable.
func set[T any](to *T, v value) bool {
	is, ok := v.any.(T)
	if ok {
		*to = is
	}
	return ok
}

// name returns a text or a number as the name of an episode. 0 and "" are no episode, as in Triton.
func (v value) name() (name string, ok bool) {
	switch n := v.any.(type) {
	case string:
		return n, true
	case int64, uint64:
		if name = v.String(); name == "0" {
			name = ""
		}
		return name, true
	}
	return "", false
}

// natural returns a whole number that is not negative. It is ok for nothing else; a float is none, be it whole.
func (v value) natural() (n uint64, ok bool) {
	switch n := v.any.(type) {
	case uint64:
		return n, true
	case int64:
		return uint64(max(0, n)), n >= 0
	}
	return 0, false
}

// duration returns microseconds; more than a time.Duration can hold are as good as none.
func (v value) duration() (time.Duration, bool) {
	n, ok := v.natural()
	if n > math.MaxInt64/uint64(time.Microsecond) {
		n = 0
	}
	return time.Duration(n) * time.Microsecond, ok
}

// String returns the value in words, for errors.
func (v value) String() string {
	switch is := v.any.(type) {
	case nil:
		return "nothing"
	case string:
		return routing.Quote(is)
	}
	return fmt.Sprint(v.any)
}
