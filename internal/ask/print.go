package ask

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/proto/weftclient"
)

// printed is an answer in JSON.
type printed struct {
	Model     string                   `json:"model"`
	Version   int64                    `json:"version"`
	Slot      string                   `json:"slot,omitempty"`
	Outputs   map[string]printedTensor `json:"outputs"`
	Execution printedExecution         `json:"execution"`
}

// printedTensor is an output. Its type has the name that a manifest gives it, such as fp32.
type printedTensor struct {
	DType string  `json:"dtype"`
	Shape []int64 `json:"shape"`
	// Values are nested lists. Numbers that JSON does not have are "NaN", "Infinity" and "-Infinity"; bytes that are no
	// UTF-8 become U+FFFD.
	Values any `json:"values"`
}

// printedExecution is the part of weft.v1.ExecutionInfo that people ask for.
type printedExecution struct {
	QueueUS       int64  `json:"queue_us"`
	ComputeUS     int64  `json:"compute_us"`
	DeviceUS      int64  `json:"device_us"`
	Device        string `json:"device"`
	BatchRows     int32  `json:"batch_rows"`
	BatchRequests int32  `json:"batch_requests"`
	PaddedRows    int32  `json:"padded_rows"`
	Executions    int32  `json:"executions"`
	FlushReason   string `json:"flush_reason"`
	RepeatedStep  bool   `json:"repeated_step,omitempty"`
	SkippedSteps  int64  `json:"skipped_steps,omitempty"`
}

// print prints an answer, as JSON or for people. Both come from the same values, so that they agree.
func (o *Options) print(out io.Writer, a *weftclient.Answer, order []*weftv1.TensorSpec) error {
	e := a.Execution
	p := printed{
		Model: a.Model, Version: a.Version, Slot: a.Slot, Outputs: map[string]printedTensor{},
		Execution: printedExecution{
			QueueUS: e.GetQueueUs(), ComputeUS: e.GetComputeUs(), DeviceUS: e.GetDeviceUs(), Device: e.GetDevice(),
			BatchRows: e.GetBatchRows(), BatchRequests: e.GetBatchRequests(), PaddedRows: e.GetPaddedRows(),
			Executions: e.GetExecutions(), FlushReason: strings.TrimPrefix(e.GetFlushReason().String(), "FLUSH_REASON_"),
			RepeatedStep: e.GetRepeatedStep(), SkippedSteps: e.GetSkippedSteps(),
		},
	}
	for name, t := range a.Outputs {
		read := elements[t.GetDtype()]
		if read == nil { // float32, or a type of a later release, which is an error
			read = list[float32]
		}
		values, err := read(t)
		if err != nil {
			return fmt.Errorf("output %q: %w", name, err)
		}
		// A scalar's shape is an empty list in JSON, and not null.
		shape := append([]int64{}, t.GetShape()...)
		p.Outputs[name] = printedTensor{dtype(t.GetDtype()), shape, nest(values, shape)}
	}
	if o.JSON {
		return encode(out, &p)
	}
	return p.text(out, order)
}

// maxRows bounds how many rows of an output are printed for people: more would push the first ones off the screen.
const maxRows = 20

// text prints the answer for people, outputs in the order of the signature.
func (p *printed) text(out io.Writer, order []*weftv1.TensorSpec) error {
	var b strings.Builder
	// The signature's order is that of the model's file, and the same each time; that of a map is not.
	for _, spec := range order {
		t, is := p.Outputs[spec.GetName()]
		if !is {
			continue
		}
		fmt.Fprintf(&b, "%s  %s %v\n", spec.GetName(), t.DType, t.Shape)
		rows, is := t.Values.([]any)
		if !is {
			rows = []any{t.Values}
		}
		for i, row := range rows {
			if i == maxRows {
				fmt.Fprintf(&b, "  and %d rows more; --json prints all\n", len(rows)-i)
				break
			}
			fmt.Fprintf(&b, "  %s\n", show(row))
		}
	}
	e := &p.Execution
	fmt.Fprintf(&b, "\n%s version %d", p.Model, p.Version)
	if p.Slot != "" {
		fmt.Fprintf(&b, " (%s)", p.Slot)
	}
	if e.RepeatedStep {
		b.WriteString(": the answer that the step had before; nothing ran\n")
	} else {
		fmt.Fprintf(&b, " on %s: %v in the queue, %v computing, in a batch of %s of %s (%s)\n", e.Device,
			time.Duration(e.QueueUS)*time.Microsecond, time.Duration(e.ComputeUS)*time.Microsecond,
			count(e.BatchRows, "row"), count(e.BatchRequests, "request"),
			strings.ToLower(strings.ReplaceAll(e.FlushReason, "_", " ")))
	}
	if e.SkippedSteps > 0 {
		fmt.Fprintf(&b, "steps left out before this one: %d\n", e.SkippedSteps)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// count returns a number of things, in the singular or the plural.
func count(n int32, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}

// elements has, by type, the function that returns the elements of a tensor as JSON can have them. 16-bit floats are
// read as float32, which holds each of them.
var elements = map[weftv1.DataType]func(*weftv1.Tensor) ([]any, error){
	weftv1.DataType_DATA_TYPE_BOOL: list[bool], weftv1.DataType_DATA_TYPE_STRING: list[string],
	weftv1.DataType_DATA_TYPE_INT8: list[int8], weftv1.DataType_DATA_TYPE_INT16: list[int16],
	weftv1.DataType_DATA_TYPE_INT32: list[int32], weftv1.DataType_DATA_TYPE_INT64: list[int64],
	weftv1.DataType_DATA_TYPE_UINT8: list[uint8], weftv1.DataType_DATA_TYPE_UINT16: list[uint16],
	weftv1.DataType_DATA_TYPE_UINT32: list[uint32], weftv1.DataType_DATA_TYPE_UINT64: list[uint64],
	weftv1.DataType_DATA_TYPE_FP16: list[float32], weftv1.DataType_DATA_TYPE_BF16: list[float32],
	weftv1.DataType_DATA_TYPE_FP64: list[float64],
}

// list returns the elements of a tensor of one type.
func list[T weftclient.Element](t *weftv1.Tensor) ([]any, error) {
	values, err := weftclient.Values[T](t)
	all := make([]any, 0, len(values))
	for _, v := range values {
		all = append(all, writable(v))
	}
	return all, err
}

// writable returns an element, or the word for a number that JSON does not have: NaN and the infinities. They are the
// words of protobuf, so that a program that reads the API's JSON can read this, too.
func writable(v any) any {
	var number float64
	switch f := v.(type) {
	case float32:
		number = float64(f)
	case float64:
		number = f
	}
	switch {
	// Integers and texts come here with number 0, and are returned as they are.
	case math.IsNaN(number):
		return "NaN"
	case math.IsInf(number, 1):
		return "Infinity"
	case math.IsInf(number, -1):
		return "-Infinity"
	}
	return v
}

// nest returns elements as nested lists of a shape. There are as many elements as the shape has; a scalar has one.
func nest(elements []any, shape []int64) any {
	if len(shape) == 0 {
		return elements[0]
	}
	all := make([]any, 0, shape[0])
	for i := range shape[0] {
		n := int64(len(elements)) / shape[0]
		all = append(all, nest(elements[i*n:(i+1)*n], shape[1:]))
	}
	return all
}
