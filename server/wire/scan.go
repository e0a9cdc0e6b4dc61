package wire

import (
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/durationpb"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/wire/elements"
)

// scanned is a reusable decode buffer for one plain message of weft.v1, a PredictRequest or a PredictStreamRequest. Its
// codec is pooled, so one buffer decodes the messages of many callers, one after the other, and allocates little for
// one that is like an earlier one.
//
// A plain message is one that scanned decodes by hand; others are decoded by proto.Unmarshal. In a plain message
//   - no field is unknown, and none comes twice that may come once;
//   - tensors are raw, or packed lists of numbers;
//   - texts are UTF-8, and both ids, the label, and the names of the model and of inputs have at most
//     predict.MaxIDBytes;
//   - there are at most 64 inputs, 64 outputs, and 64 dimensions of an input.
//
// The methods that return a bool report whether the bytes are plain. If not, the buffer holds a part of the message,
// and reset must clear it.
//
// Each field must either be cleared by reset or be set by every message that leads to it. Otherwise one caller's value
// leaks into the request of the next.
type scanned struct {
	message weftv1.PredictRequest
	model   weftv1.ModelSpec
	version weftv1.ModelSpec_Version
	label   weftv1.ModelSpec_Label
	target  durationpb.Duration
	inputs  []*input // as many as came in any message so far; pointers, because the map refers to their tensors
	came    int      // how many of them belong to this message
	pieces  [][]byte // of the elements of all inputs, which have parts of it

	// Of a message of a stream. limit is where timeout points.
	timeout   *durationpb.Duration // nil: the message has none
	limit     durationpb.Duration
	supersede bool
}

// most bounds the inputs and the outputs of a plain message, and the dimensions of each: the buffer keeps their memory,
// and Inbound.left goes through all inputs.
const most = 64

// input is an entry of the map of inputs.
type input struct {
	name   string // kept by reset, so that an equal name of the next message allocates nothing
	tensor weftv1.Tensor
	left   elements.Elements // where they came in several pieces or in a typed list; then the tensor has none of them
}

// reset clears the message for the next one. A field that it does not clear would leak into the request of another
// caller.
//
// It keeps only what nothing refers to until a message sets it: the names of inputs, of the model and of the label, the
// number of the version, and both durations. The next message is likely to have the same names, and then SetText
// allocates none.
func (s *scanned) reset() {
	for _, in := range s.inputs[:s.came] {
		in.tensor.Dtype, in.tensor.Shape, in.tensor.Raw, in.left = 0, in.tensor.GetShape()[:0], nil, elements.Elements{}
	}
	clear(s.pieces)
	s.pieces = s.pieces[:0]
	m := &s.message
	clear(m.GetInputs())
	m.Model, m.Outputs, m.RequestId, m.EpisodeId, m.TargetLatency = nil, nil, "", "", nil
	m.Priority, m.OutputEncoding, m.EndOfEpisode, m.BeginEpisode, m.Step = 0, 0, false, false, 0
	s.model.VersionChoice, s.came, s.timeout, s.supersede = nil, 0, nil, false
}

// streamRequest decodes a PredictStreamRequest, which must have a request to be plain. The request is decoded last,
// since the fields may come in any order.
func (s *scanned) streamRequest(data elements.Source) bool {
	var request elements.Source
	f := elements.ScanOf(data, 0)
	for f.Next() {
		switch f.Tag {
		case elements.BytesTag(1):
			request = f.Bytes
		case elements.BytesTag(2):
			s.timeout = &s.limit
			f.Plain = duration(&s.limit, f.Bytes)
		case elements.NumberTag(3):
			s.supersede = protowire.DecodeBool(f.Value)
		default:
			f.Plain = false
		}
	}
	return f.Plain && f.Came(1) && s.request(request)
}

// request decodes a PredictRequest.
func (s *scanned) request(data elements.Source) bool {
	m := &s.message
	// The bits of the fields that may come more than once.
	const inputs, outputs = 1 << 2, 1 << 3
	f := elements.ScanOf(data, inputs|outputs)
	for f.Next() {
		switch f.Tag {
		case elements.BytesTag(1):
			m.Model = &s.model
			f.Plain = s.spec(f.Bytes)
		case elements.BytesTag(2):
			f.Plain = s.input(f.Bytes)
		case elements.BytesTag(3):
			name := f.Bytes.Whole()
			m.Outputs = append(m.Outputs, string(name))
			f.Plain = utf8.Valid(name) && len(m.GetOutputs()) <= most
		case elements.BytesTag(4):
			f.Plain = elements.SetText(&m.RequestId, &f.Bytes, predict.MaxIDBytes)
		case elements.BytesTag(5):
			f.Plain = elements.SetText(&m.EpisodeId, &f.Bytes, predict.MaxIDBytes)
		case elements.NumberTag(6):
			m.Priority = weftv1.Priority(f.Value)
		case elements.BytesTag(7):
			m.TargetLatency = &s.target
			f.Plain = duration(&s.target, f.Bytes)
		case elements.NumberTag(8):
			m.OutputEncoding = weftv1.OutputEncoding(f.Value)
		case elements.NumberTag(9):
			m.EndOfEpisode = protowire.DecodeBool(f.Value)
		case elements.NumberTag(10):
			m.BeginEpisode = protowire.DecodeBool(f.Value)
		case elements.NumberTag(11):
			m.Step = f.Value
		default:
			f.Plain = false
		}
	}
	return f.Plain
}

// spec decodes a ModelSpec. It must name the model, so that the name of an earlier message does not count.
func (s *scanned) spec(data elements.Source) bool {
	f := elements.ScanOf(data, 0)
	for f.Next() {
		switch {
		case f.Tag == elements.BytesTag(1):
			f.Plain = elements.SetText(&s.model.Name, &f.Bytes, predict.MaxIDBytes)
		case s.model.VersionChoice != nil: // of two choices the last counts, as proto.Unmarshal sees to
			f.Plain = false
		case f.Tag == elements.NumberTag(2):
			s.version.Version, s.model.VersionChoice = int64(f.Value), &s.version
		case f.Tag == elements.BytesTag(3):
			s.model.VersionChoice = &s.label
			f.Plain = elements.SetText(&s.label.Label, &f.Bytes, predict.MaxIDBytes)
		default:
			f.Plain = false
		}
	}
	return f.Plain && f.Came(1)
}

// input decodes an entry of the map of inputs. It must have both a name and a tensor, so that nothing of an earlier
// message counts.
func (s *scanned) input(data elements.Source) bool {
	if s.came == most {
		return false
	}
	if s.came == len(s.inputs) {
		s.inputs = append(s.inputs, &input{})
	}
	in := s.inputs[s.came]
	s.came++
	f := elements.ScanOf(data, 0)
	for f.Next() {
		switch f.Tag {
		case elements.BytesTag(1):
			f.Plain = elements.SetText(&in.name, &f.Bytes, predict.MaxIDBytes)
		case elements.BytesTag(2):
			f.Plain = s.tensor(in, f.Bytes)
		default:
			f.Plain = false
		}
	}
	if !f.Plain || !f.Came(1) || !f.Came(2) {
		return false
	}
	if s.message.Inputs == nil {
		s.message.Inputs = map[string]*weftv1.Tensor{}
	}
	s.message.Inputs[in.name] = &in.tensor
	return len(s.message.GetInputs()) == s.came // else two have one name, and the last counts
}

// tensor decodes the Tensor of an input that reset has emptied. Its elements are the bytes that came, not a copy. Two
// representations are not plain here; the other way of decoding refuses them with both names.
func (s *scanned) tensor(in *input, data elements.Source) bool {
	m := &in.tensor
	f := elements.ScanOf(data, 0)
	for f.Next() {
		switch f.Tag {
		case elements.NumberTag(1):
			m.Dtype = weftv1.DataType(f.Value)
		case elements.BytesTag(2):
			// shape, which is packed: generated code always writes it so.
			for f.Plain && f.Bytes.Size() > 0 {
				var size uint64
				size, f.Plain = f.Bytes.Varint()
				f.Plain = f.Plain && len(m.GetShape()) < most
				m.Shape = append(m.Shape, int64(size))
			}
		case elements.BytesTag(3): // raw
			f.Plain = in.left.List == elements.None
			if data, one := f.Bytes.One(); one {
				m.Raw = data
			} else {
				s.lie(in, elements.Raw, &f.Bytes, f.Bytes.Size())
			}
		case elements.BytesTag(4), elements.BytesTag(5), elements.BytesTag(6), elements.BytesTag(7),
			elements.BytesTag(8), elements.BytesTag(9),
			elements.BytesTag(10):
			// A packed list. An empty one is as none; texts, field 11, are not plain.
			l := listOf(f.Tag >> 3)
			count, whole := elements.Counted(l, f.Bytes)
			f.Plain = whole && in.left.List == elements.None && len(m.GetRaw()) == 0
			if count > 0 {
				s.lie(in, l, &f.Bytes, count)
			}
		default:
			f.Plain = false
		}
	}
	return f.Plain
}

// lie notes where the elements of an input lie. Where the list of pieces has to grow, inputs before keep the old one.
func (s *scanned) lie(in *input, l elements.List, data *elements.Source, count int) {
	before := len(s.pieces)
	s.pieces = data.AppendPieces(s.pieces)
	in.left = elements.Elements{List: l, Count: count, Pieces: s.pieces[before:]}
}

// duration decodes a google.protobuf.Duration. It clears d first: a field that is 0 is not sent.
func duration(d *durationpb.Duration, data elements.Source) bool {
	d.Seconds, d.Nanos = 0, 0
	f := elements.ScanOf(data, 0)
	for f.Next() {
		switch f.Tag {
		case elements.NumberTag(1):
			d.Seconds = int64(f.Value)
		case elements.NumberTag(2):
			d.Nanos = int32(f.Value)
		default:
			f.Plain = false
		}
	}
	return f.Plain
}
