package modelfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// Sizes in bytes: of the elements of one tensor or attribute that are kept, of any other single field, and of all that
// is kept of a file.
const (
	maxPayload = 64 << 10
	maxField   = 1 << 20
	maxKept    = 256 << 20
	// maxNesting is how deep messages lie in each other; a graph within a graph takes three.
	maxNesting = 300
)

var errTruncated = errors.New("it ends, or a part of it ends, in the middle of a field")

// errTooLarge says that a file exceeds a bound of this package, which engines do not have.
var errTooLarge = errors.New("it is too large to be looked into")

// message is a kind of message that onnx.proto defines and that is looked into.
type message int

const (
	modelMessage message = iota
	graphMessage
	nodeMessage
	attributeMessage
	tensorMessage
	sparseMessage
	functionMessage
)

// part is the role of a field of a message in the copy.
type part int

const (
	kept    part = iota // copied as it is
	dropped             // not needed for a proof
	payload             // elements of a tensor or a list: dropped where there are many
	nested              // a message of its own
)

type field struct {
	part part
	of   message // where it is nested
}

// layouts lists, by field number, the parts of a message that are not simply kept. Documentation, metadata, the
// declared shapes of intermediate values, training and sharding are dropped: no rule looks at them.
var layouts = map[message]map[protowire.Number]field{
	modelMessage: {
		6: {part: dropped}, 7: {nested, graphMessage}, 14: {part: dropped}, 20: {part: dropped},
		25: {nested, functionMessage},
		26: {part: dropped},
	},
	graphMessage: {
		1: {nested, nodeMessage}, 5: {nested, tensorMessage}, 10: {part: dropped}, 13: {part: dropped},
		14: {part: dropped},
		15: {nested, sparseMessage}, 16: {part: dropped},
	},
	nodeMessage: {5: {nested, attributeMessage}, 6: {part: dropped}, 9: {part: dropped}, 10: {part: dropped}},
	attributeMessage: {
		4: {part: payload}, 5: {nested, tensorMessage}, 6: {nested, graphMessage}, 7: {part: payload},
		8: {part: payload}, 9: {part: payload},
		10: {nested, tensorMessage}, 11: {nested, graphMessage}, 13: {part: dropped}, 14: {part: dropped},
		15: {part: dropped},
		22: {nested, sparseMessage}, 23: {nested, sparseMessage},
	},
	tensorMessage: {
		4: {part: payload}, 5: {part: payload}, 6: {part: payload}, 7: {part: payload}, 9: {part: payload},
		10: {part: payload},
		11: {part: payload}, 12: {part: dropped}, 16: {part: dropped},
	},
	sparseMessage: {1: {nested, tensorMessage}, 2: {nested, tensorMessage}},
	functionMessage: {
		7: {nested, nodeMessage}, 8: {part: dropped}, 11: {nested, attributeMessage}, 12: {part: dropped},
		14: {part: dropped},
	},
}

// attributeType is AttributeProto.type. An attribute that lost its elements says that it has none of the types, so that
// no rule takes it for an empty one.
const attributeType protowire.Number = 20

// Slim copies a model file of so many bytes without the parts that a proof of its structure does not need, above all
// without its weights. Those are not even read. The error says what is wrong with the file as a message, or that the
// kept part of it would be too large.
func Slim(r io.ReaderAt, size int64) ([]byte, error) {
	s := &slimmer{r: r, size: size}
	s.seek(0)
	return s.message(modelMessage, size, 0)
}

// slimmer reads a file from one end to the other.
type slimmer struct {
	r    io.ReaderAt
	size int64
	b    *bufio.Reader
	at   int64 // of the next byte
	kept int   // bytes, counted where they are copied from the file
}

const readAhead = 64 << 10

func (s *slimmer) seek(at int64) {
	s.at = at
	section := io.NewSectionReader(s.r, at, s.size-at)
	if s.b == nil {
		s.b = bufio.NewReaderSize(section, readAhead)
		return
	}
	s.b.Reset(section)
}

// skip leaves out n bytes, which the file is known to have.
func (s *slimmer) skip(n int64) error {
	if n > int64(s.b.Buffered()) {
		s.seek(s.at + n)
		return nil
	}
	_, err := s.b.Discard(int(n))
	s.at += n
	return err
}

// bytes reads n bytes, which the file is known to have.
func (s *slimmer) bytes(n int64) ([]byte, error) {
	if s.kept += int(n); s.kept > maxKept {
		return nil, fmt.Errorf("%w: its graph takes more than %d bytes without the weights", errTooLarge, maxKept)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(s.b, b); err != nil {
		return nil, err
	}
	s.at += n
	return b, nil
}

// varint reads a number before end.
func (s *slimmer) varint(end int64) (uint64, error) {
	var raw [10]byte
	for i := range raw {
		if s.at >= end {
			return 0, errTruncated
		}
		c, err := s.b.ReadByte()
		if err != nil {
			return 0, err
		}
		s.at++
		raw[i] = c
		if c < 0x80 {
			v, n := protowire.ConsumeVarint(raw[:i+1])
			return v, parseError(n)
		}
	}
	return 0, errors.New("a number in it is too long")
}

func parseError(n int) error {
	if n < 0 {
		return protowire.ParseError(n)
	}
	return nil
}

// message copies the message that lies before end.
func (s *slimmer) message(kind message, end int64, depth int) ([]byte, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("%w: its messages are more than %d deep", errTooLarge, maxNesting)
	}
	var out, elements []byte
	many := false
	for s.at < end {
		num, typ, content, err := s.field(kind, end, depth)
		if err != nil {
			return nil, err
		}
		switch part := layouts[kind][num].part; {
		case part == dropped:
		case part == payload && (content == nil || len(elements)+len(content) > maxPayload):
			many, elements = true, nil
		case part == payload && many:
		case part == payload:
			elements = append(protowire.AppendTag(elements, num, typ), content...)
		default:
			out = append(protowire.AppendTag(out, num, typ), content...)
		}
	}
	if many && kind == attributeMessage {
		out = protowire.AppendVarint(protowire.AppendTag(out, attributeType, protowire.VarintType), 0)
	}
	return append(out, elements...), nil
}

// field reads one field, and its content as it is to follow the tag in the copy; nil: it was left out.
func (s *slimmer) field(kind message, end int64, depth int) (protowire.Number, protowire.Type, []byte, error) {
	tag, err := s.varint(end)
	if err != nil {
		return 0, 0, nil, err
	}
	num, typ := protowire.DecodeTag(tag)
	if num < protowire.MinValidNumber {
		return 0, 0, nil, errors.New("a field in it has no valid number")
	}
	var content []byte
	switch typ {
	case protowire.VarintType:
		var v uint64
		v, err = s.varint(end)
		content = protowire.AppendVarint(nil, v)
		s.kept += len(content)
	case protowire.Fixed32Type:
		content, err = s.exactly(4, end)
	case protowire.Fixed64Type:
		content, err = s.exactly(8, end)
	case protowire.BytesType:
		content, err = s.content(layouts[kind][num], end, depth)
	default:
		err = fmt.Errorf("a field in it has wire type %d, which ONNX does not use", typ)
	}
	return num, typ, content, err
}

func (s *slimmer) exactly(n, end int64) ([]byte, error) {
	if n > end-s.at {
		return nil, errTruncated
	}
	return s.bytes(n)
}

// content reads a field with a length, and returns it behind its new length; nil: it was left out.
func (s *slimmer) content(f field, end int64, depth int) ([]byte, error) {
	length, err := s.varint(end)
	if err != nil {
		return nil, err
	}
	if length > uint64(end-s.at) {
		return nil, errTruncated
	}
	n := int64(length)
	var content []byte
	switch {
	case f.part == dropped || f.part == payload && n > maxPayload:
		return nil, s.skip(n)
	case f.part == nested:
		content, err = s.message(f.of, s.at+n, depth+1)
	case n > maxField:
		return nil, fmt.Errorf("%w: a name or another small field in it takes %d bytes, at most %d are read", errTooLarge, n,
			maxField)
	default:
		content, err = s.bytes(n)
	}
	if err != nil {
		return nil, err
	}
	return protowire.AppendBytes(nil, content), nil
}
