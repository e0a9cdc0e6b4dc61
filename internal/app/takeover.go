package app

import (
	"fmt"
	"log/slog"
	"slices"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
)

// takeovers logs versions that begin to answer in the place of others and have other inputs or outputs than these:
// clients that name no version fail from then on, and see no cause. The host calls follow with each snapshot, one at a
// time.
type takeovers struct {
	log      *slog.Logger
	followed *catalog.Snapshot
	latest   map[string]*catalog.Version // by model: the version that answered requests that name none
	told     map[takeover]string         // how the newer differs
}

// takeover is a pair of versions: newer answers where before did.
type takeover struct {
	model         string
	newer, before int64
}

// newTakeovers returns one that has seen no snapshot.
func newTakeovers(log *slog.Logger) *takeovers {
	return &takeovers{
		log: log, followed: &catalog.Snapshot{}, latest: map[string]*catalog.Version{},
		told: map[takeover]string{},
	}
}

// follow looks at the models that have changed since the latest snapshot. It must not be called again before it
// returns.
func (t *takeovers) follow(s *catalog.Snapshot) {
	changed := s.Models.Since(t.followed.Models)
	t.followed = s
	for _, m := range changed {
		// The model is gone. What answered last is remembered, for when it is back.
		if m == nil {
			continue
		}
		v := newestAnswers(m)
		if v == nil {
			continue
		}
		before := t.latest[m.Name]
		t.latest[m.Name] = v
		if before == nil || before.Number == v.Number && before.Signature == v.Signature {
			before = nextBelow(m, v) // versions may become ready in any order
		}
		if before == nil {
			continue
		}
		// The same difference is logged once for each pair, although every change of the model comes here.
		which, how := takeover{m.Name, v.Number, before.Number}, differs(before.Signature, v.Signature)
		if how != "" && t.told[which] != how {
			t.log.Warn("default version with another signature", "event", "signature_changed",
				"model", m.Name, "version", v.Number, "before", before.Number, "difference", how)
		}
		t.told[which] = how
	}
}

// newestAnswers returns the newest ready version, which answers requests that name none; nil if there is no ready
// version or if the traffic names the versions that answer.
func newestAnswers(m *catalog.Model) *catalog.Version {
	if m.Traffic != nil && len(m.Traffic.Split) > 0 {
		return nil // the traffic names the versions that answer
	}
	return m.Newest()
}

// nextBelow returns the newest ready version with a lower number than v, or nil. Versions are sorted by number.
func nextBelow(m *catalog.Model, v *catalog.Version) *catalog.Version {
	for _, other := range slices.Backward(m.Versions) {
		if other.Number < v.Number && other.State == catalog.Ready {
			return other
		}
	}
	return nil
}

// differs says how a newer signature does not fit requests that were made for the older; "" if it does. More outputs
// harm nobody, but an input that was not there before does. The first difference is enough.
func differs(before, newer *tensor.Signature) string {
	if before == nil || newer == nil {
		return ""
	}
	for _, in := range newer.Inputs {
		i := before.Input(in.Name)
		if i < 0 {
			return fmt.Sprintf("it wants an input %q", in.Name)
		}
		if old := before.Inputs[i]; old.DType != in.DType || !fits(old.Shape, in.Shape) {
			return fmt.Sprintf("its input %q is %v %v, was %v %v", in.Name, in.DType, in.Shape, old.DType, old.Shape)
		}
	}
	// Clients of the older version may send any of these.
	for _, in := range slices.Concat(before.Inputs, before.Optional) {
		if !newer.Known(in.Name) {
			return fmt.Sprintf("it has no input %q", in.Name)
		}
	}
	for _, out := range before.Outputs {
		i := newer.Output(out.Name)
		if i < 0 {
			return fmt.Sprintf("it has no output %q", out.Name)
		}
		// An output whose size is open on one side is as large as before for inputs that fit both.
		if now := newer.Outputs[i]; now.DType != out.DType || !fits(out.Shape, now.Shape) &&
			!fits(now.Shape, out.Shape) {
			return fmt.Sprintf("its output %q is %v %v, was %v %v", out.Name, now.DType, now.Shape, out.DType,
				out.Shape)
		}
	}
	return ""
}

// fits reports whether every tensor of one shape is of the other, too: open sizes accept any.
func fits(shape, other tensor.Shape) bool {
	return slices.EqualFunc(shape, other, func(a, b int64) bool { return a == b || b == tensor.Unknown })
}
