package openinference

import (
	"fmt"
	"strconv"

	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/access"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/protect"
	"github.com/weftserve/weft/server/status"
	"github.com/weftserve/weft/server/transport"
)

// jsonHeader is the header that says how many bytes of a body are JSON; the others are tensors.
const jsonHeader = "Inference-Header-Content-Length"

// infer answers a prediction. It runs it as a call of gRPC is run, and converts the answer, which is encoded as for
// gRPC.
func (s *Web) infer(v *visit) (any, error) {
	r, w, err := s.readRequest(v)
	if err != nil {
		return nil, s.Fail(v.ctx, err, predict.Place{})
	}
	v.slow()
	answer, err := s.Run(v.ctx, r)
	if err != nil {
		return nil, err
	}
	// Encode has made it so.
	encoded := answer.(*transport.Encoded)
	// The answer counts as the body does, for the time in which it is written.
	if size := encoded.Bytes(); size > smallBody {
		err = s.hold(v, size)
	}
	var made *inferred
	if err == nil {
		made, err = inferredOf(encoded, &w)
	}
	if err != nil {
		encoded.Pieces().Free()
		return nil, s.Fail(v.ctx, err, predict.Place{})
	}
	return made, nil
}

// readRequest reads a request and lets it in. The caller must have it answered by Run, which releases it. The body
// belongs to the request as soon as takeBody is called.
func (s *Web) readRequest(v *visit) (*request, wanted, error) {
	body, err := s.readBody(v, s.MaxMessageBytes)
	if err != nil {
		return nil, wanted{}, err
	}
	head, err := v.head(len(*body))
	if err != nil {
		s.Memory.Put(body)
		return nil, wanted{}, err
	}
	var turn protect.Turn
	defer turn.End()
	if head > smallBody {
		turn.Begin() // reading it takes a processor for long; bytes behind the JSON take none
	}
	r := newRequest(s.Service, false)
	size, w, err := r.takeBody(v.model(), v.version(), body, head, &turn)
	turn.End()
	switch {
	case err != nil:
	case size > s.MaxMessageBytes:
		err = &status.MessageTooLargeError{Bytes: size, Limit: s.MaxMessageBytes, What: "the data of all inputs together"}
	case size > smallBody:
		err = s.hold(v, size)
	}
	if err == nil {
		err = s.letIn(v, r)
	}
	if err != nil {
		r.Release()
		return nil, w, err
	}
	return r, w, nil
}

// letIn takes of the caller's quotas what a request brings besides its body, and gives it its priority. The visit keeps
// the admission, not the request: it lasts until the answer was written.
func (s *Web) letIn(v *visit, r *request) error {
	if err := v.admission.Grow(r.Brings(v.caller)); err != nil {
		return err
	}
	priority, err := v.caller.Priority(r.Priority, r.Chosen)
	if err == nil {
		r.Admit(v.caller, priority, access.Admission{}, nil)
	}
	return err
}

// head returns how many bytes of a body are JSON: what jsonHeader says, or all of them. The error is a
// *tensor.FieldError.
func (v *visit) head(body int) (int, error) {
	length := v.r.Header.Get(jsonHeader)
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

// theBody is the field of errors that are about no part of a body, which inPart leaves alone.
const theBody = "the body"

// broken is the error of a body that cannot be read.
func broken(format string, args ...any) error {
	return &tensor.FieldError{
		Field: theBody, Want: "JSON as docs/OPEN_INFERENCE.md has it", Got: fmt.Sprintf(format, args...),
	}
}
