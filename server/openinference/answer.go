package openinference

import (
	"strconv"

	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/transport"
	"github.com/weftserve/weft/server/wire/fields"
)

// Encode implements predict.Codec. Answers are raw whatever the request was: clients read nothing else.
func (r *request) Encode(result *predict.Result) error {
	w := &r.out
	w.Reset()
	w.Text(1, result.Model)
	w.Text(2, strconv.FormatInt(result.Version, 10))
	w.Text(3, r.ID)
	if result.Slot != "" {
		parameterOut(w, "slot", func() { w.Text(textParam, result.Slot) })
	}
	if r.stream && r.asked.final {
		parameterOut(w, "triton_final_response", func() { w.Number(boolParam, 1) })
	}
	r.values = r.values[:0]
	for spec, t := range result.Outputs() {
		o := r.output(len(r.values))
		t.Shape = given(spec, t.Shape)
		if o.classes > 0 || o.place != nil {
			data := t.Data
			r.copies = append(r.copies, &data) // the answer does not have it
		}
		if o.classes > 0 {
			var err error
			if t, err = classes(spec, &t, o.classes, r.house.MaxMessageBytes); err != nil {
				return err
			}
		}
		begin := len(w.Head)
		w.Text(1, spec.Name)
		w.Text(2, datatype(t.DType))
		w.Numbers(3, t.Shape)
		if o.place != nil {
			if err := r.encodeShared(w, o, t.Data); err != nil {
				return err
			}
			t.Data = nil
		}
		w.Wrap(5, begin, 0)
		r.values = append(r.values, t.Data)
	}
	for _, data := range r.values {
		if w.Announce(6, len(data)); len(data) > 0 {
			w.Value(data)
		}
	}
	if r.stream { // the message is infer_response of a ModelStreamInferResponse
		w.Wrap(2, 0, w.Size)
	}
	if err := r.house.CheckSize(w.Bytes()); err != nil {
		return err
	}
	r.Answer, r.given = transport.Encode(w, r.house.Memory)
	return nil
}

// The fields of InferParameter that answers have.
const boolParam, int64Param, textParam = 1, 2, 3

// parameterOut appends an entry of the map of parameters, whose value is appended by that function.
func parameterOut(w *fields.Writer, key string, value func()) {
	entry := len(w.Head)
	w.Text(1, key)
	begin := len(w.Head)
	value()
	w.Wrap(2, begin, 0)
	w.Wrap(4, entry, 0)
}
