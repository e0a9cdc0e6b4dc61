package policy

import (
	"encoding/binary"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// Read returns the policy in a model file that [Policy.ONNX] wrote. It reads the weights and trusts that the
// operators are those of this package; it is no reader for other models.
func Read(model []byte) (*Policy, error) {
	const graphField, initializerField, dimsField, rawField = 7, 5, 1, 9 // of ModelProto, GraphProto, TensorProto
	p := &Policy{}
	err := each(model, graphField, func(graph []byte, _ uint64) error {
		return each(graph, initializerField, func(tensor []byte, _ uint64) error {
			var dims []int
			if err := each(tensor, dimsField, func(_ []byte, dim uint64) error {
				dims = append(dims, int(dim))
				return nil
			}); err != nil {
				return err
			}
			return each(tensor, rawField, func(raw []byte, _ uint64) error { return p.read(dims, raw) })
		})
	})
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	if len(p.sizes) == 0 || len(p.weights) != Count(p.sizes...) {
		return nil, fmt.Errorf("policy: %d weights do not make a network of sizes %v; was the model written by "+
			"Policy.ONNX?", len(p.weights), p.sizes)
	}
	for _, width := range p.sizes[1:] {
		p.values = append(p.values, make([]float32, width))
	}
	return p, nil
}

// read appends one initializer: a matrix opens a layer, a vector holds its biases.
func (p *Policy) read(dims []int, raw []byte) error {
	switch {
	case len(dims) == 2 && len(p.sizes) == 0:
		p.sizes = append(p.sizes, dims...)
	case len(dims) == 2:
		p.sizes = append(p.sizes, dims[1])
	case len(dims) != 1:
		return fmt.Errorf("a weight has shape %v; want a matrix or a vector", dims)
	}
	if len(raw)%4 != 0 {
		return fmt.Errorf("a weight of shape %v has %d bytes, no multiple of 4", dims, len(raw))
	}
	for ; len(raw) > 0; raw = raw[4:] {
		p.weights = append(p.weights, math.Float32frombits(binary.LittleEndian.Uint32(raw)))
	}
	return nil
}

// each calls visit with each value of one field of a message: bytes or a number.
func each(message []byte, field protowire.Number, visit func(value []byte, number uint64) error) error {
	for len(message) > 0 {
		num, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return fmt.Errorf("not a model file: %w", protowire.ParseError(n))
		}
		message = message[n:]
		var value []byte
		var number uint64
		switch kind {
		case protowire.BytesType:
			value, n = protowire.ConsumeBytes(message)
		case protowire.VarintType:
			number, n = protowire.ConsumeVarint(message)
		default:
			n = protowire.ConsumeFieldValue(num, kind, message)
		}
		if n < 0 {
			return fmt.Errorf("not a model file: %w", protowire.ParseError(n))
		}
		message = message[n:]
		if num != field {
			continue
		}
		if err := visit(value, number); err != nil {
			return err
		}
	}
	return nil
}
