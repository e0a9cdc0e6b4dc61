package record

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// Inputs says how much of the inputs of requests is recorded.
type Inputs string

// The parts of the inputs that can be recorded. Only a recording of the whole of them can be sent again.
const (
	InputsFull Inputs = "full"
	InputsHash Inputs = "hash" // Entry.InputHash
	InputsNone Inputs = "none"
)

// check refuses all texts but the three above.
func (i Inputs) check() error {
	switch i {
	case InputsFull, InputsHash, InputsNone:
		return nil
	}
	return fmt.Errorf("inputs: expected full, hash or none, found %q", string(i))
}

// withoutInputs returns a request that shares everything but the inputs with q. It copies each field that is set, so
// that fields of later versions of the API are recorded, too.
func withoutInputs(q *weftv1.PredictRequest) *weftv1.PredictRequest {
	rest := &weftv1.PredictRequest{}
	inputs := q.ProtoReflect().Descriptor().Fields().ByName("inputs")
	q.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		if field != inputs {
			rest.ProtoReflect().Set(field, value)
		}
		return true
	})
	return rest
}

// hashOfInputs returns Entry.InputHash.
func hashOfInputs(q *weftv1.PredictRequest) (string, error) {
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(&weftv1.PredictRequest{Inputs: q.GetInputs()})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}
