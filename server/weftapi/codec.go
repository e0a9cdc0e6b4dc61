package weftapi

import (
	"iter"
	"maps"

	"google.golang.org/protobuf/proto"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/status"
	"github.com/weftserve/weft/server/wire"
)

// codec is one request of weft.v1 on its way.
type codec struct {
	predict.Request

	message  *weftv1.PredictRequest
	limit    int                     // of the answer in bytes
	came     [wire.Typed + 1]int     // how many inputs came in each form
	response *weftv1.PredictResponse // the answer, once there is one
}

// newCodec returns the request of a message whose answer has at most so many bytes.
func newCodec(m *weftv1.PredictRequest, limit int) *codec {
	c := &codec{Request: wire.Request(m), message: m, limit: limit}
	c.Codec = c
	return c
}

// Names implements predict.Codec.
func (c *codec) Names() iter.Seq[string] { return maps.Keys(c.message.GetInputs()) }

// Decode implements predict.Codec.
func (c *codec) Decode(input *tensor.Spec) (tensor.Tensor, error) {
	t, form, err := wire.Decode(input, c.message.GetInputs()[input.Name])
	c.came[form]++
	return t, err
}

// Encode implements predict.Codec. It refuses an answer that gRPC would refuse to send, which on a stream would end it
// for every request.
func (c *codec) Encode(result *predict.Result) error {
	c.response = wire.Response(c.ID, result, answersRaw(c.message.GetOutputEncoding(), &c.came))
	result.Message = c.response
	size := proto.Size(c.response)
	if c.Stream {
		size = proto.Size(streamAnswer(c.ID, c.response))
	}
	if size > c.limit {
		return &status.AnswerTooLargeError{Bytes: size, Limit: c.limit, Remedy: "ask for fewer outputs or rows"}
	}
	return nil
}

// answersRaw decides the representation of the outputs by the request's encoding, or else by how the inputs came: raw
// if at least as many came raw as in typed lists.
func answersRaw(encoding weftv1.OutputEncoding, came *[wire.Typed + 1]int) bool {
	switch encoding {
	case weftv1.OutputEncoding_OUTPUT_ENCODING_RAW:
		return true
	case weftv1.OutputEncoding_OUTPUT_ENCODING_TYPED:
		return false
	default:
		return came[wire.Raw] >= came[wire.Typed]
	}
}
