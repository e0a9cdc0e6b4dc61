package openinference

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/routing"
	"github.com/weftserve/weft/sharedsched"
)

// asked is what the parameters of a request ask for.
type asked struct {
	episode  string
	end      bool
	priority sharedsched.Priority
	chosen   bool // the caller has named the priority
	timeout  time.Duration
	target   time.Duration
	label    string
	trace    string // the W3C traceparent of the request
	final    bool   // answers of a stream say that they are the last of their request
}

// priorities are those of the levels, of which 1 is the highest and 0 the usual one. Further ones are the last.
var priorities = [...]sharedsched.Priority{
	sharedsched.Critical, sharedsched.CriticalPlus, sharedsched.Critical, sharedsched.SheddablePlus,
	sharedsched.Sheddable,
}

// ask reads the parameters of a message. Those that Weft does not know are nobody's here, but for those that Triton
// reserves. The error is a *tensor.FieldError.
func ask(m *message) (asked, error) {
	var a asked
	for i := range m.parameters {
		p := &m.parameters[i]
		var ok bool
		var want string
		switch p.key {
		case "sequence_id", "routing_key":
			a.episode, ok = p.name()
			want = "a text or a number"
		case "sequence_start":
			ok, want = p.kind == isBool, "a bool"
		case "sequence_end":
			a.end, ok, want = p.number != 0, p.kind == isBool, "a bool"
		case "priority":
			ok, want = p.natural(), "a number that is not negative"
			a.priority, a.chosen = priorities[min(p.number, uint64(len(priorities)-1))], p.number > 0
		case "timeout":
			ok, want = p.natural(), "microseconds that are not negative"
			a.timeout = p.duration()
		case "target_latency":
			ok, want = p.natural(), "microseconds that are not negative"
			a.target = p.duration()
		case "label":
			a.label, ok, want = p.text, p.kind == isText, "a text"
		case "traceparent":
			a.trace, ok, want = p.text, p.kind == isText, "a text"
		case "triton_enable_empty_final_response":
			a.final, ok, want = p.number != 0, p.kind == isBool, "a bool"
		case "triton_final_response":
			ok, want = p.kind == isBool, "a bool"
		default:
			ok, want = !strings.HasPrefix(p.key, "triton_"), "none of the parameters that Triton reserves"
		}
		if !ok {
			return a, &tensor.FieldError{Field: parameterField(p), Want: want, Got: p.String()}
		}
	}
	for i := range m.outputs {
		o := &m.outputs[i]
		field := outputField(o.name)
		for j := range o.parameters {
			p := &o.parameters[j]
			if p.key != "classification" {
				continue
			}
			if o.classes = p.number; !p.natural() || p.number == 0 {
				return a, &tensor.FieldError{
					Field: field + "." + parameterField(p), Want: "how many classes, 1 at least", Got: p.String(),
				}
			}
		}
	}
	return a, nil
}

func parameterField(p *parameter) string { return "parameters" + parameterKey(p.key) }

func parameterKey(key string) string { return "[" + routing.Quote(key) + "]" }

// name returns a text or a number as the name of an episode; 0 and "" are none.
func (p *parameter) name() (name string, ok bool) {
	switch p.kind {
	case isText:
		return p.text, true
	case isInt64, isUint64:
		if p.number == 0 {
			return "", true
		}
		return p.String(), true
	}
	return "", false
}

func (p *parameter) natural() bool {
	return p.kind == isUint64 || p.kind == isInt64 && int64(p.number) >= 0
}

// duration returns microseconds; far too many are as good as none.
func (p *parameter) duration() time.Duration {
	if p.number > math.MaxInt64/uint64(time.Microsecond) {
		return 0
	}
	return time.Duration(p.number) * time.Microsecond
}

// String returns the value.
func (p *parameter) String() string {
	switch p.kind {
	case isBool:
		return strconv.FormatBool(p.number != 0)
	case isInt64:
		return strconv.FormatInt(int64(p.number), 10)
	case isText:
		return routing.Quote(p.text)
	case isDouble:
		return strconv.FormatFloat(math.Float64frombits(p.number), 'g', -1, 64)
	case isUint64:
		return strconv.FormatUint(p.number, 10)
	}
	return "nothing"
}
