package wire

import (
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/tensor"
)

// Encode returns the message of a tensor, raw or in a typed list; strings have no raw form. The tensor must be whole
// (tensor.Tensor.Check). Its shape, raw data, and strings are not copied: the message aliases them.
func Encode(t tensor.Tensor, raw bool) *weftv1.Tensor {
	m := &weftv1.Tensor{Dtype: dataTypes[t.DType], Shape: t.Shape}
	if raw && t.DType != tensor.String {
		m.Raw = t.Data
	} else {
		unpack(m, t)
	}
	return m
}
