package replay

import (
	"encoding/binary"
	"math"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/tensor"
)

// tensorOf returns an output as a tensor. Its shape and raw data are the message's own. It trusts a message that Weft wrote: one
// that is wrong gives a tensor that is not whole.
func tensorOf(m *weftv1.Tensor) tensor.Tensor {
	t := tensor.Tensor{Shape: m.GetShape(), Data: m.GetRaw()}
	raw := len(m.GetRaw()) > 0
	little := binary.LittleEndian
	switch m.GetDtype() {
	case weftv1.DataType_DATA_TYPE_FP32:
		t.DType = tensor.Float32
		if !raw {
			t.Data = join(m.GetFloatValues(), func(b []byte, v float32) []byte { return little.AppendUint32(b, math.Float32bits(v)) })
		}
	case weftv1.DataType_DATA_TYPE_FP16:
		t.DType = tensor.Float16
		if !raw {
			t.Data = join(m.GetFloatValues(), func(b []byte, v float32) []byte { return little.AppendUint16(b, tensor.Float16Bits(v)) })
		}
	case weftv1.DataType_DATA_TYPE_BF16:
		t.DType = tensor.BFloat16
		if !raw {
			t.Data = join(m.GetFloatValues(), func(b []byte, v float32) []byte { return little.AppendUint16(b, tensor.BFloat16Bits(v)) })
		}
	case weftv1.DataType_DATA_TYPE_FP64:
		t.DType = tensor.Float64
		if !raw {
			t.Data = join(m.GetDoubleValues(), func(b []byte, v float64) []byte { return little.AppendUint64(b, math.Float64bits(v)) })
		}
	case weftv1.DataType_DATA_TYPE_INT8:
		t.DType = tensor.Int8
		if !raw {
			t.Data = join(m.GetInt32Values(), func(b []byte, v int32) []byte { return append(b, byte(v)) })
		}
	case weftv1.DataType_DATA_TYPE_INT16:
		t.DType = tensor.Int16
		if !raw {
			t.Data = join(m.GetInt32Values(), func(b []byte, v int32) []byte { return little.AppendUint16(b, uint16(v)) })
		}
	case weftv1.DataType_DATA_TYPE_INT32:
		t.DType = tensor.Int32
		if !raw {
			t.Data = join(m.GetInt32Values(), func(b []byte, v int32) []byte { return little.AppendUint32(b, uint32(v)) })
		}
	case weftv1.DataType_DATA_TYPE_INT64:
		t.DType = tensor.Int64
		if !raw {
			t.Data = join(m.GetInt64Values(), func(b []byte, v int64) []byte { return little.AppendUint64(b, uint64(v)) })
		}
	case weftv1.DataType_DATA_TYPE_UINT8:
		t.DType = tensor.Uint8
		if !raw {
			t.Data = join(m.GetUint32Values(), func(b []byte, v uint32) []byte { return append(b, byte(v)) })
		}
	case weftv1.DataType_DATA_TYPE_UINT16:
		t.DType = tensor.Uint16
		if !raw {
			t.Data = join(m.GetUint32Values(), func(b []byte, v uint32) []byte { return little.AppendUint16(b, uint16(v)) })
		}
	case weftv1.DataType_DATA_TYPE_UINT32:
		t.DType = tensor.Uint32
		if !raw {
			t.Data = join(m.GetUint32Values(), little.AppendUint32)
		}
	case weftv1.DataType_DATA_TYPE_UINT64:
		t.DType = tensor.Uint64
		if !raw {
			t.Data = join(m.GetUint64Values(), little.AppendUint64)
		}
	case weftv1.DataType_DATA_TYPE_BOOL:
		t.DType = tensor.Bool
		if !raw {
			t.Data = join(m.GetBoolValues(), func(b []byte, v bool) []byte {
				if v {
					return append(b, 1)
				}
				return append(b, 0)
			})
		}
	case weftv1.DataType_DATA_TYPE_STRING:
		t.DType = tensor.String
		t.Data = join(m.GetStringValues(), tensor.AppendString)
	default: // of a later release; tensor.Invalid compares with nothing
	}
	return t
}

func join[T any](values []T, add func(data []byte, value T) []byte) []byte {
	var data []byte
	for _, v := range values {
		data = add(data, v)
	}
	return data
}
