package execution

import (
	"errors"

	"github.com/weftserve/weft/runtime/tensor"
)

// most returns how many bytes the outputs of an execution may take; 0: any number. It is the sum of what each request
// has left of its own bound, and in proportion for the rows that fill the execution up.
func (x *execution) most(parts []part, size int) int {
	if x.unit.MaxAnswer == 0 {
		return 0
	}
	most, rows := 0, 0
	for i := range parts {
		p := &parts[i]
		rows += p.rows
		if p.job.PerRow {
			most += x.unit.MaxAnswer * p.rows
		} else {
			most += max(0, x.unit.MaxAnswer-p.job.bytes())
		}
	}
	if size > rows {
		most = int(float64(most) * float64(size) / float64(rows))
	}
	return max(most, 1)
}

// tooLarge ends the parts of an execution whose outputs were too large. A request is known to be the cause only if it
// ran by itself and was not filled up, or if only some of its rows ran. Others are tried once more, as they came.
func (x *execution) tooLarge(err error, parts []part) {
	p := &parts[0]
	whole := p.rows == p.job.Rows
	filledUp := x.plan.Batched && whole && (x.plan.Padded(p.rows) > p.rows || x.plan.pads(p.job.Inputs))
	if len(parts) > 1 || filledUp || p.job.PerRow && x.plan.Batched {
		x.fail(err, parts, true)
		return
	}
	if e, is := errors.AsType[*tensor.TooLargeError](err); is && !whole {
		err = &tensor.TooLargeError{Bytes: e.Bytes + p.job.bytes(), Most: x.unit.MaxAnswer}
	}
	p.span.Err = err
}
