package wire

import (
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/durationpb"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server/weigh"
)

// scanned is room for a plain message, which is read by hand: no field of it comes twice or is unknown, and its tensors
// are raw, or packed lists of numbers. Those methods that return a bool report whether the bytes are such a message; if
// not, the room holds a part of it.
type scanned struct {
	message weftv1.PredictRequest
	model   weftv1.ModelSpec
	version weftv1.ModelSpec_Version
	label   weftv1.ModelSpec_Label
	target  durationpb.Duration
	inputs  []*input // as many as came in any message so far
	came    int      // in this one
	pieces  [][]byte // of the elements of inputs

	// of a message of a stream
	timeout   *durationpb.Duration
	limit     durationpb.Duration
	supersede bool
}

// most bounds the inputs and the outputs of a plain message, and the dimensions of each, which are held on to.
const most = 64

// input is an entry of the map of inputs.
type input struct {
	name   string
	tensor weftv1.Tensor

	elements // where they came in several pieces or in a typed list; then the tensor has none of them
}

// reset forgets the message, but for names, which the next one is likely to have too.
func (s *scanned) reset() {
	for _, in := range s.inputs[:s.came] {
		in.tensor.Dtype, in.tensor.Shape, in.tensor.Raw, in.elements = 0, in.tensor.GetShape()[:0], nil, elements{}
	}
	clear(s.pieces)
	s.pieces = s.pieces[:0]
	m := &s.message
	clear(m.GetInputs())
	m.Model, m.Outputs, m.RequestId, m.EpisodeId, m.TargetLatency = nil, nil, "", "", nil
	m.Priority, m.OutputEncoding, m.EndOfEpisode = 0, 0, false
	s.model.VersionChoice, s.came, s.timeout, s.supersede = nil, 0, nil, false
}

// streamRequest reads a PredictStreamRequest.
func (s *scanned) streamRequest(data source) bool {
	var request source
	f := fieldsOf(data, 0)
	for f.next() {
		switch f.tag {
		case bytes(1):
			request = f.bytes
		case bytes(2):
			s.timeout = &s.limit
			f.plain = duration(&s.limit, f.bytes)
		case number(3):
			s.supersede = protowire.DecodeBool(f.value)
		default:
			f.plain = false
		}
	}
	return f.plain && f.came(1) && s.request(request)
}

// request reads a PredictRequest.
func (s *scanned) request(data source) bool {
	m := &s.message
	const inputs, outputs = 1 << 2, 1 << 3
	f := fieldsOf(data, inputs|outputs)
	for f.next() {
		switch f.tag {
		case bytes(1):
			m.Model = &s.model
			f.plain = s.spec(f.bytes)
		case bytes(2):
			f.plain = s.input(f.bytes)
		case bytes(3):
			name := f.bytes.whole()
			m.Outputs = append(m.Outputs, string(name))
			f.plain = utf8.Valid(name) && len(m.GetOutputs()) <= most
		case bytes(4):
			f.plain = text(&m.RequestId, &f.bytes)
		case bytes(5):
			f.plain = text(&m.EpisodeId, &f.bytes)
		case number(6):
			m.Priority = weftv1.Priority(f.value)
		case bytes(7):
			m.TargetLatency = &s.target
			f.plain = duration(&s.target, f.bytes)
		case number(8):
			m.OutputEncoding = weftv1.OutputEncoding(f.value)
		case number(9):
			m.EndOfEpisode = protowire.DecodeBool(f.value)
		default:
			f.plain = false
		}
	}
	return f.plain
}

// spec reads a ModelSpec.
func (s *scanned) spec(data source) bool {
	f := fieldsOf(data, 0)
	for f.next() {
		switch {
		case f.tag == bytes(1):
			f.plain = text(&s.model.Name, &f.bytes)
		case s.model.VersionChoice != nil: // the last one counts
			f.plain = false
		case f.tag == number(2):
			s.version.Version, s.model.VersionChoice = int64(f.value), &s.version
		case f.tag == bytes(3):
			s.model.VersionChoice = &s.label
			f.plain = text(&s.label.Label, &f.bytes)
		default:
			f.plain = false
		}
	}
	return f.plain && f.came(1)
}

// input reads an entry of the map of inputs, which has a name and a tensor.
func (s *scanned) input(data source) bool {
	if s.came == most {
		return false
	}
	if s.came == len(s.inputs) {
		s.inputs = append(s.inputs, &input{})
	}
	in := s.inputs[s.came]
	s.came++
	f := fieldsOf(data, 0)
	for f.next() {
		switch f.tag {
		case bytes(1):
			f.plain = text(&in.name, &f.bytes)
		case bytes(2):
			f.plain = s.tensor(in, f.bytes)
		default:
			f.plain = false
		}
	}
	if !f.plain || !f.came(1) || !f.came(2) {
		return false
	}
	if s.message.Inputs == nil {
		s.message.Inputs = map[string]*weftv1.Tensor{}
	}
	s.message.Inputs[in.name] = &in.tensor
	return len(s.message.GetInputs()) == s.came // else two have one name
}

// tensor reads the Tensor of an input that is empty. Its elements are the bytes that came, not a copy.
func (s *scanned) tensor(in *input, data source) bool {
	m := &in.tensor
	f := fieldsOf(data, 0)
	for f.next() {
		switch f.tag {
		case number(1):
			m.Dtype = weftv1.DataType(f.value)
		case bytes(2):
			for f.plain && len(f.bytes.head) > 0 {
				var size uint64
				size, f.plain = f.bytes.varint()
				f.plain = f.plain && len(m.GetShape()) < most
				m.Shape = append(m.Shape, int64(size))
			}
		case bytes(3):
			f.plain = in.list == listNone
			if f.bytes.more == 0 {
				m.Raw = f.bytes.head
			} else {
				s.lie(in, listRaw, &f.bytes, f.bytes.size())
			}
		case bytes(4), bytes(5), bytes(6), bytes(7), bytes(8), bytes(9), bytes(10):
			l := list(f.tag>>3) - 2 // as list.field has it
			count, whole := counted(l, f.bytes)
			f.plain = whole && in.list == listNone && len(m.GetRaw()) == 0
			if count > 0 {
				s.lie(in, l, &f.bytes, count)
			}
		default:
			f.plain = false
		}
	}
	return f.plain
}

// lie notes where the elements of an input lie.
func (s *scanned) lie(in *input, l list, data *source, count int) {
	before := len(s.pieces)
	s.pieces = data.appendPieces(s.pieces)
	in.elements = elements{l, count, s.pieces[before:]}
}

// counted returns how many numbers a packed list has. It reports whether they are whole, and may take the memory that
// they need.
func counted(l list, data source) (count int, ok bool) {
	size := data.size()
	switch {
	case l == listFloat:
		return size / 4, size%4 == 0
	case l == listDouble:
		return size / 8, size%8 == 0
	}
	var turn weigh.Turn
	for ok = true; ok && len(data.head) > 0; count++ {
		turn.Step(1)
		_, ok = data.varint()
	}
	return count, ok && 8*count <= weigh.Most(size)
}

// duration reads a google.protobuf.Duration.
func duration(d *durationpb.Duration, data source) bool {
	d.Seconds, d.Nanos = 0, 0
	f := fieldsOf(data, 0)
	for f.next() {
		switch f.tag {
		case number(1):
			d.Seconds = int64(f.value)
		case number(2):
			d.Nanos = int32(f.value)
		default:
			f.plain = false
		}
	}
	return f.plain
}
