package loadgen

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/wire"
)

const (
	// variants is how many different requests a stream builds. They are sent in turn, so that a cache of answers in the
	// server does not shape the figures.
	variants = 16
	// variantBytes bounds the bytes of all variants together; the first one may be larger.
	variantBytes = 16 << 20
	// maxElements bounds one synthetic tensor: 256 MiB of fp32. A wrong rows or open_dims is told rather than allocated.
	maxElements = 1 << 26
)

// payloads returns the requests of the stream, from its file or with synthetic values, encoded.
func (s *Stream) payloads(signature *weftv1.Signature, speaks protocol) ([]payload, error) {
	if s.Request != "" {
		return s.readRequests(signature, speaks)
	}
	var all []payload
	size := 0
	// The next variant is expected to be as large as the average so far.
	for i := 0; i < variants && (i == 0 || size+size/i <= variantBytes); i++ {
		q, err := s.makeUp(signature, uint64(i))
		if err != nil {
			return nil, fmt.Errorf("stream %s, made-up requests: %w; write the requests into a file and name it (request)",
				s.Name, err)
		}
		p, err := s.encode(q, s.Rows, speaks)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
		size += len(p.encoded)
	}
	return all, nil
}

// encode sets the stream's model and priority in a request, and encodes it for the wire.
func (s *Stream) encode(q *weftv1.PredictRequest, rows int64, speaks protocol) (payload, error) {
	q.Model, q.Priority = s.spec(), s.Priority.proto()
	m, err := speaks.message(q)
	if err != nil {
		return payload{}, fmt.Errorf("stream %s, request: %w", s.Name, err)
	}
	encoded, err := proto.Marshal(m)
	if err != nil {
		return payload{}, fmt.Errorf("stream %s: encode a request: %w", s.Name, err)
	}
	return payload{encoded, rows}, nil
}

// makeUp returns the request of a variant. Its values follow from the seed, so that two runs send the same.
func (s *Stream) makeUp(signature *weftv1.Signature, variant uint64) (*weftv1.PredictRequest, error) {
	// Raw outputs are the cheapest for both sides.
	q := &weftv1.PredictRequest{
		Inputs: map[string]*weftv1.Tensor{}, OutputEncoding: weftv1.OutputEncoding_OUTPUT_ENCODING_RAW,
	}
	counted := false
	for i, input := range signature.GetInputs() {
		// Requests share an execution only if they agree in the inputs that have no rows: those are the same in each.
		of := variant
		if input.BatchDim == nil {
			of = 0
		}
		t, err := s.makeUpTensor(input, rand.New(rand.NewPCG(s.Seed, of<<16+uint64(i)+2)))
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", input.GetName(), err)
		}
		q.Inputs[input.GetName()] = t
		counted = counted || input.BatchDim != nil
	}
	if !counted && s.Rows > 1 {
		return nil, fmt.Errorf("no input has a dimension that counts rows; expected rows: 1, found %d", s.Rows)
	}
	return q, nil
}

// makeUpTensor returns a value for an input. The dimension of rows has the stream's rows, and each other open dimension
// has OpenDims. Fixed dimensions stay as they are; one that fixes another number of rows is an error.
func (s *Stream) makeUpTensor(spec *weftv1.TensorSpec, values *rand.Rand) (*weftv1.Tensor, error) {
	t := &weftv1.Tensor{Dtype: spec.GetDtype()}
	elements := int64(1)
	for d, extent := range spec.GetShape() {
		// The dimension of rows may itself be fixed, for models that take batches of one size.
		switch rows := spec.BatchDim != nil && int(spec.GetBatchDim()) == d; {
		case rows && extent >= 0 && extent != s.Rows:
			return nil, fmt.Errorf("the model takes exactly %d rows in a request, found rows: %d", extent, s.Rows)
		case rows:
			extent = s.Rows
		case extent < 0:
			extent = s.OpenDims
		}
		t.Shape = append(t.Shape, extent)
		if elements *= extent; elements > maxElements {
			return nil, fmt.Errorf("shape %v has too many elements; expected at most %d: lower rows or open_dims",
				t.GetShape(), maxElements)
		}
	}
	dtype := wire.DType(spec.GetDtype())
	switch dtype {
	case tensor.Invalid:
		return nil, fmt.Errorf("this release knows no data type %v", spec.GetDtype())
	case tensor.String:
		for range elements {
			t.StringValues = append(t.StringValues, fmt.Appendf(nil, "w%d", values.IntN(10)))
		}
		return t, nil
	default:
	}
	raw := make([]byte, 0, elements*int64(dtype.Size()))
	for range elements {
		raw = appendValue(raw, dtype, values)
	}
	t.Raw = raw
	return t, nil
}

// appendValue appends a random number: a floating point number from a standard normal distribution, and 0 or 1 of any
// other type, since inputs of integers are often indices and small ones are likely to be valid.
func appendValue(out []byte, dtype tensor.DType, values *rand.Rand) []byte {
	switch dtype {
	case tensor.Float64:
		return binary.LittleEndian.AppendUint64(out, math.Float64bits(values.NormFloat64()))
	case tensor.Float32:
		return binary.LittleEndian.AppendUint32(out, math.Float32bits(float32(values.NormFloat64())))
	case tensor.BFloat16:
		return binary.LittleEndian.AppendUint16(out, uint16(math.Float32bits(float32(values.NormFloat64()))>>16))
	case tensor.Float16: // of either sign, from 1/8 on and below 2
		return binary.LittleEndian.AppendUint16(out, uint16(values.IntN(2))<<15|uint16(12+values.IntN(4))<<10|
			uint16(values.IntN(1<<10)))
	default:
		out = append(out, make([]byte, dtype.Size())...)
		out[len(out)-dtype.Size()] = byte(values.IntN(2))
		return out
	}
}

// readRequests reads the stream's file of requests: JSON values one after another, at least one. The model and priority
// in them are replaced by those of the stream.
func (s *Stream) readRequests(signature *weftv1.Signature, speaks protocol) ([]payload, error) {
	file, err := os.Open(s.Request)
	if err != nil {
		return nil, fmt.Errorf("stream %s, request: %w", s.Name, err)
	}
	defer file.Close()
	var all []payload
	for values := json.NewDecoder(file); ; {
		var text json.RawMessage
		err := values.Decode(&text)
		// A file without a request is an error, which names its end.
		if errors.Is(err, io.EOF) && len(all) > 0 {
			return all, nil
		}
		q := &weftv1.PredictRequest{}
		if err == nil {
			err = protojson.Unmarshal(text, q)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: request %d, which ends at byte %d: expected a weft.v1.PredictRequest in JSON: %w",
				s.Request, len(all)+1, values.InputOffset(), err)
		}
		p, err := s.encode(q, rowsOf(q, signature), speaks)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
}

// rowsOf returns how many rows a request has, by the first input that has rows. It is 1 if the request lacks that
// input: the server will refuse it.
func rowsOf(q *weftv1.PredictRequest, signature *weftv1.Signature) int64 {
	for _, input := range signature.GetInputs() {
		shape := q.GetInputs()[input.GetName()].GetShape()
		if at := int(input.GetBatchDim()); input.BatchDim != nil && at < len(shape) {
			return shape[at]
		}
	}
	return 1
}
