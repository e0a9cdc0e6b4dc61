package openinference

import (
	"fmt"
	"slices"

	"google.golang.org/grpc/mem"

	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/protect"
	"github.com/weftserve/weft/server/wire/elements"
)

// list is elements as they came in JSON.
type list struct {
	text  []byte // nil: there is none
	count int
}

// bytes is how many bytes the elements take at most as a tensor of that type, of which a body has at least two for
// each.
func (l *list) bytes(dtype tensor.DType) int {
	if dtype == tensor.String {
		return len(l.text) + l.count + 1 // four bytes more for each, and two quotes and a comma less
	}
	return l.count * dtype.Size()
}

// wanted says which outputs of an answer in JSON are wanted as bytes behind it.
type wanted struct {
	all          bool // but for texts
	bytes, texts []string
}

func (w *wanted) asBytes(output string) bool {
	return slices.Contains(w.bytes, output) || w.all && !slices.Contains(w.texts, output)
}

// takeBody makes a request of a body of HTTP, which is the request's from then on. The first bytes of it are JSON,
// and the others tensors; size is how many bytes the elements take that are in the JSON, once they are tensors.
func (r *request) takeBody(model, version string, body *[]byte, head int, turn *protect.Turn) (
	size int, w wanted, err error,
) {
	r.web, r.data = true, mem.BufferSlice{mem.NewBuffer(body, r.house.Memory)}
	m := &r.in
	m.reset()
	m.large = true // if it is broken
	m.model, m.version = model, version
	b := bodyReader{scanner{text: (*body)[:head], turn: turn}, m, 0}
	if err = b.read(); err != nil {
		return 0, w, err
	}
	const long = 4 << 10 // may have long names
	m.large = b.parts > most || head > long
	if err = m.takeBehind((*body)[head:]); err != nil {
		return 0, w, err
	}
	for _, in := range m.inputs[:m.came] {
		size += in.list.bytes(dtypeOf(in.datatype))
	}
	w.all = isTrue(m.parameters, "binary_data_output")
	for i := range m.outputs {
		o := &m.outputs[i]
		switch {
		case isTrue(o.parameters, asBytes):
			w.bytes = append(w.bytes, o.name)
		case find(o.parameters, asBytes) != nil:
			w.texts = append(w.texts, o.name)
		}
	}
	r.fill(len(*body))
	return size, w, nil
}

// The parameters that say of an output that it is wanted as bytes, and of an input how many bytes behind the JSON it
// has.
const asBytes, bytesBehind = "binary_data", "binary_data_size"

func find(parameters []parameter, key string) *parameter {
	i := slices.IndexFunc(parameters, func(p parameter) bool { return p.key == key })
	if i < 0 {
		return nil
	}
	return &parameters[i]
}

func isTrue(parameters []parameter, key string) bool {
	p := find(parameters, key)
	return p != nil && p.kind == isBool && p.number != 0
}

// takeBehind gives the bytes behind the JSON to the inputs that have some there.
func (m *message) takeBehind(behind []byte) error {
	for _, in := range m.inputs[:m.came] {
		size := find(in.parameters, bytesBehind)
		if size == nil {
			continue
		}
		if !size.natural() || size.number > uint64(len(behind)) {
			return &tensor.FieldError{
				Field: inputField(in) + "." + parameterField(size),
				Want:  fmt.Sprintf("at most the %d bytes that are left behind the JSON", len(behind)), Got: size.String(),
			}
		}
		in.raw = len(m.raw)
		m.raw = append(m.raw, elements.Elements{
			List: elements.Raw, Count: int(size.number), Pieces: [][]byte{behind[:size.number:size.number]},
		})
		behind = behind[size.number:]
	}
	if len(behind) > 0 {
		return broken("%d bytes behind the JSON that belong to no input", len(behind))
	}
	return nil
}

// matchBody wants each input to have its elements in one place.
func (m *message) matchBody() error {
	for _, in := range m.inputs[:m.came] {
		fault := &tensor.FieldError{Field: inputField(in), Got: "both"}
		switch listed, behind := in.list.text != nil, in.raw >= 0; {
		case in.place != nil && (listed || behind):
			fault.Want = "no data beside shared_memory_region"
			return fault
		case listed && behind:
			fault.Want = "either data or binary_data_size"
			return fault
		}
	}
	return nil
}
