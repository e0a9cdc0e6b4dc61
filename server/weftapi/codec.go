package weftapi

import (
	"iter"
	"maps"
	"sync"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/transport"
	"github.com/weftserve/weft/server/wire"
	"github.com/weftserve/weft/server/wire/elements"
)

// codec carries one request of weft.v1 from the bytes of its message to the bytes of its answer. It implements
// transport.Request and predict.Codec.
//
// Package transport calls its methods in this order, one at a time: Take, when the message has come; Decode, for each
// input of the version that is to answer, and again if another version is tried; Encode, for the answer; Release, when
// nothing runs any more that reads the inputs.
//
// A plain message is decoded by hand and stays in gRPC's buffers; others are decoded by proto.Unmarshal into memory of
// their own. Package server/wire says which messages are plain.
//
// A codec is pooled: API.request takes one out, and Release clears it for another request. A field that Release does
// not clear leaks one caller's value into the next request.
type codec struct {
	transport.Exchange

	api    *API
	stream bool                    // the message is a PredictStreamRequest
	in     wire.Inbound            // the reusable decode buffer
	data   mem.BufferSlice         // the buffers of gRPC that a plain message refers to; nil: it refers to none
	bytes  [][]byte                // the contents of data
	came   [elements.Typed + 1]int // how many inputs came in each form, by which the form of the answer is chosen
	out    wire.Answer
	given  bool // the values of out belong to the answer, whose sender frees them
}

// codecs has the codecs that were released, so that a request like an earlier one allocates hardly anything.
var codecs = sync.Pool{New: func() any { return new(codec) }}

// request returns an empty codec. Its owner must release it, unless a handler panicked: then nobody knows who still
// uses it, and it is left to the garbage collector.
func (a *API) request(stream bool) *codec {
	c := codecs.Get().(*codec)
	c.api, c.stream = a, stream
	return c
}

// Type implements transport.Message.
func (c *codec) Type() string {
	if c.stream {
		return "weft.v1.PredictStreamRequest"
	}
	return "weft.v1.PredictRequest"
}

// Take implements transport.Message. It keeps the reference to the data only if the message is plain. Where there is an
// error, the request has what could be decoded.
func (c *codec) Take(data mem.BufferSlice) error {
	for _, b := range data {
		c.bytes = append(c.bytes, b.ReadOnlyData())
	}
	var err error
	if c.in.Scan(c.bytes, c.stream) {
		c.data = data
	} else {
		c.forget()
		// Not plain: generated code wants the message in one piece. What it decodes does not refer to that.
		whole := data.MaterializeToBuffer(c.api.Memory)
		data.Free()
		err = c.in.Unmarshal(whole.ReadOnlyData(), c.stream)
		whole.Free()
	}
	c.Request = wire.Request(&c.in)
	c.Codec, c.Stream = c, c.stream
	c.Chosen = c.in.Request.GetPriority() != weftv1.Priority_PRIORITY_UNSPECIFIED
	return err
}

// Release implements transport.Request. Outputs lie in memory of api.Memory, which is given back unless the answer has
// it. It must be called once, when nothing reads the inputs any more.
func (c *codec) Release() {
	c.Reset()
	// The answer was not encoded by hand, or was copied: its values are still the codec's.
	if !c.given {
		for _, v := range c.out.Values {
			c.api.Memory.Put(&v.Data)
		}
	}
	c.data.Free()
	c.in.Forget()
	c.forget()
	c.out.Reset()
	c.api, c.data, c.given = nil, nil, false
	c.came = [elements.Typed + 1]int{}
	codecs.Put(c)
}

// forget lets go of the bytes of data, and keeps the list for the next message.
func (c *codec) forget() {
	clear(c.bytes)
	c.bytes = c.bytes[:0]
}

// Names implements predict.Codec.
func (c *codec) Names() iter.Seq[string] { return maps.Keys(c.in.Request.GetInputs()) }

// Decode implements predict.Codec. Where another version is tried after the first, it is called for the same inputs
// again, and they count again.
func (c *codec) Decode(input *tensor.Spec) (tensor.Tensor, error) {
	t, form, err := c.in.Decode(input)
	c.came[form]++
	return t, err
}

// Encode implements predict.Codec. It refuses an answer that gRPC would refuse to send, which on a stream would end it
// for every request. Raw outputs are encoded by hand and not copied; others, and texts, by generated code.
func (c *codec) Encode(result *predict.Result) error {
	// Of a raw answer with texts, only these are in a typed list: Response encodes each output by its type.
	if !answersRaw(c.in.Request.GetOutputEncoding(), &c.came) || !wire.Plain(result) {
		return c.encodeTyped(result)
	}
	c.out.Encode(c.ID, result, c.stream)
	if err := c.api.CheckSize(c.out.Bytes()); err != nil {
		return err
	}
	c.Answer, c.given = transport.Encode(&c.out.Writer, c.api.Memory)
	return nil
}

// encodeTyped answers with a message that gRPC encodes by generated code. The message may refer to the results, which
// are therefore left to the garbage collector.
func (c *codec) encodeTyped(result *predict.Result) error {
	response := wire.Response(c.ID, result, answersRaw(c.in.Request.GetOutputEncoding(), &c.came))
	result.Message = response
	message := proto.Message(response)
	if c.stream {
		message = &weftv1.PredictStreamResponse{
			RequestId: c.ID, Result: &weftv1.PredictStreamResponse_Response{Response: response},
		}
	}
	c.Answer = message
	return c.api.CheckSize(proto.Size(message))
}

// answersRaw decides whether outputs are raw: by the request's encoding or, where that is unspecified or MIRROR, by how
// the inputs came. They are raw if at least as many came raw as in typed lists, and so for a request without elements.
func answersRaw(encoding weftv1.OutputEncoding, came *[elements.Typed + 1]int) bool {
	switch encoding {
	case weftv1.OutputEncoding_OUTPUT_ENCODING_RAW:
		return true
	case weftv1.OutputEncoding_OUTPUT_ENCODING_TYPED:
		return false
	default:
		return came[elements.AsRaw] >= came[elements.Typed]
	}
}
