package openinference

import (
	"fmt"
	"slices"

	"google.golang.org/grpc/mem"

	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/server/protect"
	"github.com/weftserve/weft/server/web"
	"github.com/weftserve/weft/server/wire/elements"
)

// wanted says which outputs of an answer in JSON are wanted as bytes behind it.
type wanted struct {
	all          bool     // all of them, but for texts
	bytes, texts []string // outputs that say so themselves, by name: as bytes, and in the JSON
}

// asBytes reports whether an output is wanted as bytes. What an output says itself counts before what the request says
// of all.
func (w *wanted) asBytes(output string) bool {
	return slices.Contains(w.bytes, output) || w.all && !slices.Contains(w.texts, output)
}

// takeBody makes a request of a body of HTTP, which is the request's from then on, also where there is an error. The
// first head bytes of it are JSON, and the others tensors. size is how many bytes the elements take that are in the
// JSON, once they are tensors; they are not decoded here.
func (r *request) takeBody(model, version string, body *[]byte, head int, turn *protect.Turn) (
	size int, w wanted, err error,
) {
	r.web, r.data = true, mem.BufferSlice{mem.NewBuffer(body, r.house.Memory)}
	r.in.ModelName, r.in.ModelVersion = model, version
	b := bodyReader{Scanner: web.Scanner{Text: (*body)[:head], Turn: turn}, message: &r.in}
	if err = b.read(); err != nil {
		return 0, w, err
	}
	r.spread()
	for i := range r.inputs {
		in := &r.inputs[i]
		// The type is the caller's; Decode compares it with the model's before the memory is taken.
		in.list = b.lists[i]
		if in.GetDatatype() == "" { // Decode knows the type, and what it takes
			r.unknown += in.list.Most()
		} else {
			size += in.list.Bytes(dtypeOf(in.GetDatatype()))
		}
	}
	if err = r.takeBehind((*body)[head:]); err != nil {
		return 0, w, err
	}
	w.all = isTrue(r.in.GetParameters(), "binary_data_output")
	for _, o := range r.in.GetOutputs() {
		// What an output says itself counts, also where it says false.
		_, said := o.GetParameters()[asBytes]
		switch {
		case isTrue(o.GetParameters(), asBytes):
			w.bytes = append(w.bytes, o.GetName())
		case said:
			w.texts = append(w.texts, o.GetName())
		}
	}
	r.fill(len(*body))
	return size, w, nil
}

// The parameters that say of an output that it is wanted as bytes, and of an input how many bytes behind the JSON it
// has.
const asBytes, bytesBehind = "binary_data", "binary_data_size"

// isTrue reports whether a parameter is true; one that is no bool or not there is not.
func isTrue(parameters map[string]*inference.InferParameter, key string) bool {
	return parameters[key].GetBoolParam()
}

// takeBehind gives the bytes behind the JSON to the inputs that have some there, in the order of the inputs. The error
// is a *tensor.FieldError.
func (r *request) takeBehind(behind []byte) error {
	for i := range r.inputs {
		in := &r.inputs[i]
		p, is := in.GetParameters()[bytesBehind]
		if !is {
			continue
		}
		size, ok := valueOf(p).natural()
		if !ok || size > uint64(len(behind)) {
			return web.InPart(inputField(in), wrongParameter(bytesBehind,
				fmt.Sprintf("at most the %d bytes that are left behind the JSON", len(behind)), valueOf(p)))
		}
		in.raw = elements.Elements{List: elements.Raw, Count: int(size), Pieces: [][]byte{behind[:size:size]}}
		behind = behind[size:]
	}
	if len(behind) > 0 {
		return web.Broken("%d bytes behind the JSON that belong to no input", len(behind))
	}
	return nil
}

// matchBody refuses an input that has its elements in two places.
func (r *request) matchBody() error {
	for i := range r.inputs {
		in := &r.inputs[i]
		switch listed, behind := in.list.Text != nil, in.raw.List != elements.None; {
		case in.place != nil && (listed || behind):
			return in.both("no data beside shared_memory_region")
		case listed && behind:
			return in.both("either data or binary_data_size")
		}
	}
	return nil
}
