package execution

import (
	"errors"
	"testing"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// flood answers with the input; with a hundred times as much, as far as that may be, if it has a '!'.
func flood(b *tensor.Batch) error {
	in := b.Inputs[0]
	times := 1
	for _, c := range in.Data {
		if c == '!' {
			times = 100
		}
	}
	out := b.Output(0, in.DType, tensor.Shape{int64(times * len(in.Data))}, times*len(in.Data))
	for i := range times {
		copy(out[i*len(in.Data):], in.Data)
	}
	return nil
}

// TestLargeAnswers: outputs may be as large as an answer for each request of the batch, and for the rows that fill it
// up. Where they are larger each request runs again, as it came; one that does by itself hears of it, and the model has
// not failed.
func TestLargeAnswers(t *testing.T) {
	for _, c := range []struct {
		name      string
		rows      string // of one request each
		padded    int
		perRow    bool // they are one request of a proof
		asItCame  bool
		want      int // bytes that there may be; 0: it is answered
		undecided bool
	}{
		{name: "small ones", rows: "abcd", padded: 4},
		{name: "a batch with a large one", rows: "ab!d", padded: 4, want: 40, undecided: true},
		{name: "a large one with padding", rows: "!", padded: 8, want: 80, undecided: true},
		{name: "a large one in a batch of its own", rows: "!", padded: 1, want: 10}, // which no other run of it would change
		{name: "a large one as it came", rows: "!", padded: 1, asItCame: true, want: 10},
		{name: "rows of a proof", rows: "!bcd", padded: 4, perRow: true, want: 40, undecided: true},
	} {
		u, _ := batched(flood)
		u.MaxAnswer = 10
		p := *u.Plan()
		p.Allowed = []int{c.padded}
		u.Follow(&p)
		b := &sharedsched.Batch{Rows: len(c.rows), Padded: c.padded}
		if c.perRow {
			x := tensor.Tensor{DType: tensor.Uint8, Shape: tensor.Shape{int64(len(c.rows))}, Data: []byte(c.rows)}
			j := &Job{Unit: u, Rows: len(c.rows), Inputs: []tensor.Tensor{x}, PerRow: true}
			b.Spans = append(b.Spans, sharedsched.Span{Payload: j, Rows: j.Rows})
		} else {
			for i := range c.rows {
				j := oneRow(u, c.rows[i])
				if c.asItCame {
					j.Plan = p.Unjoined(&anyBytes)
				}
				b.Spans = append(b.Spans, sharedsched.Span{Payload: j, Rows: 1})
			}
		}
		report := Execute(b)
		for _, s := range b.Spans {
			undecided, isUndecided := errors.AsType[*UndecidedError](s.Err)
			large, is := errors.AsType[*tensor.TooLargeError](s.Err)
			_, isModels := errors.AsType[*catalog.ModelError](s.Err)
			if is != (c.want > 0) || is && large.Most != c.want || isUndecided != c.undecided ||
				isUndecided && !undecided.AsItCame() || isModels != isUndecided || report.Reruns > 0 {
				t.Errorf("%s: %v; %+v", c.name, s.Err, report)
			}
		}
	}
}

// TestLargeAnswerInParts: the outputs of a request that is executed in parts may not take more than those of others.
func TestLargeAnswerInParts(t *testing.T) {
	u, _ := batched(flood)
	u.MaxAnswer = 10
	x := tensor.Tensor{DType: tensor.Uint8, Shape: tensor.Shape{12}, Data: []byte("abcdefghijkl")}
	j := &Job{Unit: u, Rows: 12, Inputs: []tensor.Tensor{x}}
	for first := 0; first < j.Rows; first += 4 {
		b := &sharedsched.Batch{Rows: 4, Padded: 4, Spans: []sharedsched.Span{{Payload: j, First: first, Rows: 4}}}
		Execute(b)
		err := b.Spans[0].Err
		_, isUndecided := errors.AsType[*UndecidedError](err)
		e, is := errors.AsType[*tensor.TooLargeError](err)
		if is != (first == 8) || is && *e != (tensor.TooLargeError{Bytes: 12, Most: 10}) || isUndecided {
			t.Errorf("rows from %d on: %v", first, err)
		}
	}
}
