package openinference

import (
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weftserve/weft/server/calls"
	"github.com/weftserve/weft/server/predict"
)

// Encode implements predict.Codec. Answers are raw whatever the request was: clients read nothing else.
func (r *request) Encode(result *predict.Result) error {
	w := &r.out
	w.Reset()
	// of a ModelStreamInferResponse
	w.Text(1, result.Model)
	w.Text(2, strconv.FormatInt(result.Version, 10))
	w.Text(3, r.ID)
	if result.Slot != "" {
		textParameter(r, "slot", result.Slot)
	}
	if r.stream && r.asked.final {
		finalParameter(r)
	}
	for spec, t := range result.Outputs() {
		begin := len(w.Head)
		w.Text(1, spec.Name)
		w.Text(2, datatype(t.DType))
		w.Numbers(3, t.Shape)
		w.Wrap(5, begin, 0)
	}
	for _, t := range result.Outputs() {
		w.Announce(6, len(t.Data))
		w.Value(t.Data)
	}
	if r.stream {
		w.Wrap(2, 0, w.Size)
	}
	if err := r.house.CheckSize(w.Bytes()); err != nil {
		return err
	}
	r.answer, r.given = calls.Encode(w, r.house.Memory)
	return nil
}

// textParameter and finalParameter append an entry of the map of parameters.
func textParameter(r *request, key, text string) {
	w := &r.out
	entry := len(w.Head)
	w.Text(1, key)
	value := len(w.Head)
	w.Text(isText, text)
	w.Wrap(2, value, 0)
	w.Wrap(4, entry, 0)
}

func finalParameter(r *request) {
	w := &r.out
	entry := len(w.Head)
	w.Text(1, "triton_final_response")
	value := len(w.Head)
	w.Number(isBool, int64(protowire.EncodeBool(true)))
	w.Wrap(2, value, 0)
	w.Wrap(4, entry, 0)
}
