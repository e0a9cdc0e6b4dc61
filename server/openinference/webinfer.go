package openinference

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/protect"
	"github.com/weftserve/weft/server/status"
	"github.com/weftserve/weft/server/transport"
	"github.com/weftserve/weft/server/web"
)

// jsonHeader is the header that says how many bytes of a body are JSON; the others are tensors.
const jsonHeader = "Inference-Header-Content-Length"

// infer answers a prediction. It runs it as a call of gRPC is run, and converts the answer, which is encoded as for
// gRPC.
func (s *Web) infer(v *web.Visit) (any, error) {
	r, w, err := s.readRequest(v)
	if err != nil {
		return nil, s.Fail(v.Ctx, err, predict.Place{})
	}
	v.Slow()
	answer, err := s.Run(v.Ctx, r)
	if err != nil {
		return nil, err
	}
	// Encode has made it so.
	encoded := answer.(*transport.Encoded)
	// The answer counts as the body does, for the time in which it is written.
	if size := encoded.Bytes(); size > web.SmallBody {
		err = v.Hold(size)
	}
	var made *inferred
	if err == nil {
		made, err = inferredOf(encoded, &w)
	}
	if err != nil {
		encoded.Pieces().Free()
		return nil, s.Fail(v.Ctx, err, predict.Place{})
	}
	return made, nil
}

// readRequest reads a request and lets it in. The caller must have it answered by Run, which releases it. The body
// belongs to the request as soon as takeBody is called.
func (s *Web) readRequest(v *web.Visit) (*request, wanted, error) {
	body, err := v.ReadBody(s.MaxMessageBytes)
	if err != nil {
		return nil, wanted{}, err
	}
	head, err := headOf(v.R, len(*body))
	if err != nil {
		s.Memory.Put(body)
		return nil, wanted{}, err
	}
	var turn protect.Turn
	defer turn.End()
	if head > web.SmallBody {
		turn.Begin() // reading it takes a processor for long; bytes behind the JSON take none
	}
	r := newRequest(s.Service, false)
	size, w, err := r.takeBody(v.Model(), v.Version(), body, head, &turn)
	turn.End()
	switch {
	case err != nil:
	case size > s.MaxMessageBytes:
		err = &status.MessageTooLargeError{Bytes: size, Limit: s.MaxMessageBytes, What: "the data of all inputs together"}
	case size+r.unknown > web.SmallBody:
		err = v.Hold(size + r.unknown)
	}
	if err == nil {
		err = v.LetIn(&r.Exchange, r.Brings(v.Caller))
	}
	if err != nil {
		r.Release()
		return nil, w, err
	}
	return r, w, nil
}

// headOf returns how many bytes of a body are JSON: what jsonHeader says, or all of them. The error is a
// *tensor.FieldError.
func headOf(r *http.Request, body int) (int, error) {
	length := r.Header.Get(jsonHeader)
	if length == "" {
		return body, nil
	}
	n, err := strconv.Atoi(length)
	if err != nil || n < 0 || n > body {
		return 0, &tensor.FieldError{
			Field: "the header " + jsonHeader, Want: fmt.Sprintf("how many of the %d bytes of the body are JSON", body),
			Got: strconv.Quote(length),
		}
	}
	return n, nil
}
