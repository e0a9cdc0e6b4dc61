package openinference

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weftserve/weft/server/openinference/region"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/wire/elements"
	"github.com/weftserve/weft/server/wire/fields"
)

// message is a ModelInferRequest, read by hand: its elements stay where they lie. It is used again for others. The zero
// value is ready.
type message struct {
	model, version, id string
	parameters         []parameter
	inputs             []*input // as many as came in any message so far
	came               int      // in this one
	outputs            []output
	raw                []elements.Elements // the entries of raw_input_contents
	pieces             [][]byte            // of elements
	large              bool                // it may have had more than is held on to
}

// input is an InferInputTensor.
type input struct {
	name, datatype string
	shape          []int64
	parameters     []parameter
	contents       bool // it has some, be they empty
	left           elements.Elements
	more           []elements.Elements // of further lists, beside which left is refused
	texts          [][]byte
	raw            int  // the index of its entry in message.raw; -1: none
	list           list // of JSON

	// Of an input in shared memory: where it lies, and the copy of it. Nil: neither.
	place  *region.Part
	copied *[]byte
}

// output is an InferRequestedOutputTensor.
type output struct {
	name       string
	parameters []parameter
	place      *region.Part // where it is to lie; nil: in the answer
	classes    uint64       // how many of its largest elements are wanted in its place; 0: the output
}

// parameter is an entry of a map of parameters.
type parameter struct {
	key  string
	kind uint8 // the field of InferParameter; 0: none
	// The value: of a number its bits, of a bool 0 or 1.
	number uint64
	text   string
}

// The kinds of parameters.
const (
	isBool = iota + 1
	isInt64
	isText
	isDouble
	isUint64
)

// most bounds what a message may have of inputs, outputs and parameters to be read by hand as it came, which is held
// on to.
const most = 64

// reset forgets the message, but for names, which the next one is likely to have too.
func (m *message) reset() {
	if m.large {
		*m = message{}
		return
	}
	for _, in := range m.inputs[:m.came] {
		*in = input{name: in.name, datatype: in.datatype, shape: in.shape[:0]}
	}
	clear(m.pieces)
	clear(m.raw)
	m.version, m.id = "", ""
	m.parameters, m.outputs, m.raw, m.pieces, m.came = nil, m.outputs[:0], m.raw[:0], m.pieces[:0], 0
}

// reader reads a message. trusted: the generated code wrote it, so it may have any number of parts.
type reader struct {
	*message

	trusted bool
	texts   int // how much memory texts may still take, unless it is trusted
}

// textBytes is how much memory the texts of a message that is read by hand may take. Those with more are read by turns.
const textBytes = 1 << 20

// read reads a message from its pieces. It reports whether that can be done; if not, the generated code is to read it.
func (m *message) read(pieces [][]byte, trusted bool) bool {
	m.reset()
	m.large = trusted
	data := fields.NewSource(pieces)
	r := reader{m, trusted, textBytes}
	const repeated = 1<<4 | 1<<5 | 1<<6 | 1<<7
	f := fields.Of(data, repeated)
	for f.Next() {
		switch f.Tag {
		case fields.Bytes(1):
			f.Plain = r.text(&m.model, &f.Bytes)
		case fields.Bytes(2):
			f.Plain = r.text(&m.version, &f.Bytes)
		case fields.Bytes(3):
			f.Plain = r.text(&m.id, &f.Bytes)
		case fields.Bytes(4):
			f.Plain = r.parameter(&m.parameters, f.Bytes)
		case fields.Bytes(5):
			f.Plain = r.input(f.Bytes)
		case fields.Bytes(6):
			f.Plain = r.output(f.Bytes)
		case fields.Bytes(7):
			m.raw = append(m.raw, r.lie(elements.Raw, f.Bytes.Size(), &f.Bytes))
			f.Plain = r.few(len(m.raw))
		default:
			f.Plain = false
		}
	}
	if !f.Came(1) {
		m.model = ""
	}
	return f.Plain && r.distinct(m.parameters)
}

// few reports whether there may be so many parts of a kind.
func (r *reader) few(n int) bool { return r.trusted || n <= most }

func (r *reader) text(to *string, from *fields.Source) bool {
	longest := predict.MaxIDBytes
	if r.trusted {
		longest = from.Size()
	}
	return fields.Text(to, from, longest)
}

// lie returns elements, which stay where they lie.
func (r *reader) lie(l elements.List, count int, data *fields.Source) elements.Elements {
	before := len(r.pieces)
	r.pieces = data.AppendPieces(r.pieces)
	return elements.Elements{List: l, Count: count, Pieces: r.pieces[before:]}
}

// parameter reads an entry of a map of parameters.
func (r *reader) parameter(to *[]parameter, data fields.Source) bool {
	var p parameter
	f := fields.Of(data, 0)
	for f.Next() {
		switch f.Tag {
		case fields.Bytes(1):
			f.Plain = r.text(&p.key, &f.Bytes)
		case fields.Bytes(2):
			f.Plain = r.value(&p, f.Bytes)
		default:
			f.Plain = false
		}
	}
	*to = append(*to, p)
	return f.Plain && r.few(len(*to))
}

// value reads an InferParameter.
func (r *reader) value(p *parameter, data fields.Source) bool {
	f := fields.Of(data, 0)
	for f.Next() {
		if p.kind != 0 { // the last one counts
			return false
		}
		switch f.Tag {
		case fields.Number(isBool):
			f.Value = min(f.Value, 1)
			fallthrough
		case fields.Number(isInt64), fields.Fixed(isDouble), fields.Number(isUint64):
			p.kind, p.number = uint8(f.Tag>>3), f.Value
		case fields.Bytes(isText):
			p.kind = isText
			f.Plain = r.text(&p.text, &f.Bytes)
		default:
			f.Plain = false
		}
	}
	return f.Plain
}

// distinct reports whether each key comes once: in a map the last one counts.
func (r *reader) distinct(parameters []parameter) bool {
	if r.trusted {
		return true
	}
	for i := range parameters {
		for j := range i {
			if parameters[i].key == parameters[j].key {
				return false
			}
		}
	}
	return true
}

// input reads an InferInputTensor.
func (r *reader) input(data fields.Source) bool {
	if r.came == len(r.inputs) {
		r.inputs = append(r.inputs, &input{})
	}
	in := r.inputs[r.came]
	in.raw = -1
	r.came++
	f := fields.Of(data, 1<<4)
	for f.Next() {
		switch f.Tag {
		case fields.Bytes(1):
			f.Plain = r.text(&in.name, &f.Bytes)
		case fields.Bytes(2):
			f.Plain = r.text(&in.datatype, &f.Bytes)
		case fields.Bytes(3):
			for f.Plain && f.Bytes.Size() > 0 {
				var size uint64
				size, f.Plain = f.Bytes.Varint()
				in.shape = append(in.shape, int64(size))
				f.Plain = f.Plain && r.few(len(in.shape))
			}
		case fields.Bytes(4):
			f.Plain = r.parameter(&in.parameters, f.Bytes)
		case fields.Bytes(5):
			in.contents = true
			f.Plain = r.contents(in, f.Bytes)
		default:
			f.Plain = false
		}
	}
	if !f.Came(1) {
		in.name = ""
	}
	if !f.Came(2) {
		in.datatype = ""
	}
	return f.Plain && r.few(r.came) && r.distinct(in.parameters)
}

// lists are the lists of InferTensorContents, by their fields.
var lists = [...]elements.List{
	1: elements.Bool, 2: elements.Int32, 3: elements.Int64, 4: elements.Uint32, 5: elements.Uint64,
	6: elements.Float, 7: elements.Double, texts: elements.Texts,
}

const texts = 8 // the field bytes_contents

// contents reads an InferTensorContents.
func (r *reader) contents(in *input, data fields.Source) bool {
	if r.trusted {
		in.texts = make([][]byte, 0, countTexts(data))
	}
	f := fields.Of(data, 1<<texts)
	for f.Next() {
		number := f.Tag >> 3
		switch {
		case number == 0 || number > texts || f.Tag != fields.Bytes(protowire.Number(number)):
			f.Plain = false
		case number == texts:
			const header = 24 // of a slice
			r.texts -= header + f.Bytes.Size()
			in.texts = append(in.texts, f.Bytes.Whole())
			f.Plain = r.trusted || r.texts >= 0
		default:
			count, whole := elements.Counted(lists[number], f.Bytes)
			f.Plain = whole
			switch {
			case count == 0:
			case in.left.List == elements.None:
				in.left = r.lie(lists[number], count, &f.Bytes)
			default:
				in.more = append(in.more, r.lie(lists[number], count, &f.Bytes))
			}
		}
	}
	return f.Plain
}

func countTexts(data fields.Source) (n int) {
	for f := fields.Of(data, 1<<texts); f.Next(); {
		if f.Tag == fields.Bytes(texts) {
			n++
		}
	}
	return n
}

// output reads an InferRequestedOutputTensor.
func (r *reader) output(data fields.Source) bool {
	if len(r.outputs) < cap(r.outputs) {
		r.outputs = r.outputs[:len(r.outputs)+1] // its name is likely to be the same
	} else {
		r.outputs = append(r.outputs, output{})
	}
	o := &r.outputs[len(r.outputs)-1]
	o.parameters, o.place, o.classes = nil, nil, 0
	f := fields.Of(data, 1<<2)
	for f.Next() {
		switch f.Tag {
		case fields.Bytes(1):
			f.Plain = r.text(&o.name, &f.Bytes)
		case fields.Bytes(2):
			f.Plain = r.parameter(&o.parameters, f.Bytes)
		default:
			f.Plain = false
		}
	}
	if !f.Came(1) {
		o.name = ""
	}
	return f.Plain && r.few(len(r.outputs)) && r.distinct(o.parameters)
}
