package wire

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/tensor"
)

// Form is the way in which a message carries elements.
type Form uint8

// The forms of messages.
const (
	None Form = iota // no elements
	Raw
	Typed
)

// list is one of the fields in which a message may carry elements.
type list uint8

const (
	listNone list = iota
	listRaw
	listFloat
	listDouble
	listInt32
	listInt64
	listUint32
	listUint64
	listBool
	listString
	lists // how many there are
)

// field returns the number of the message's field.
func (l list) field() protowire.Number { return protowire.Number(l) + 2 }

// elements are those of a tensor, as they came in a list of a message.
type elements struct {
	list   list
	count  int // of raw: bytes
	pieces [][]byte
}

// listNames are the names of the message's fields.
var listNames = [lists]string{
	listRaw: "raw", listFloat: "float_values", listDouble: "double_values", listInt32: "int32_values",
	listInt64: "int64_values", listUint32: "uint32_values", listUint64: "uint64_values", listBool: "bool_values",
	listString: "string_values",
}

// typedLists are the typed lists that belong to element types.
var typedLists = [...]list{
	tensor.Float16: listFloat, tensor.BFloat16: listFloat, tensor.Float32: listFloat, tensor.Float64: listDouble,
	tensor.Int8: listInt32, tensor.Int16: listInt32, tensor.Int32: listInt32, tensor.Int64: listInt64,
	tensor.Uint8: listUint32, tensor.Uint16: listUint32, tensor.Uint32: listUint32, tensor.Uint64: listUint64,
	tensor.Bool: listBool, tensor.String: listString,
}

// sizes counts the contents of each field of a message: bytes of raw, elements of the lists.
type sizes [lists]int

// names lists the fields that hold something.
func (s *sizes) names() string {
	var names []string
	for l, size := range s {
		if size > 0 {
			names = append(names, listNames[l])
		}
	}
	return strings.Join(names, " and ")
}

func sizesOf(m *weftv1.Tensor) sizes {
	return sizes{
		listRaw: len(m.GetRaw()), listFloat: len(m.GetFloatValues()), listDouble: len(m.GetDoubleValues()),
		listInt32: len(m.GetInt32Values()), listInt64: len(m.GetInt64Values()), listUint32: len(m.GetUint32Values()),
		listUint64: len(m.GetUint64Values()), listBool: len(m.GetBoolValues()), listString: len(m.GetStringValues()),
	}
}

// usedList returns the field that carries the elements, and complains unless it is the only one, fits the element type,
// and is there when there are elements.
func usedList(dtype tensor.DType, shape tensor.Shape, count int64, sizes *sizes) (list, error) {
	present, used := 0, listNone
	for l, size := range sizes {
		if size > 0 {
			used = list(l)
			present++
		}
	}
	switch typed := typedLists[dtype]; {
	case present > 1:
		return listNone, fault("", "one representation of the elements", sizes.names())
	case used == listNone && count > 0:
		return listNone, fault("", fmt.Sprintf("%d elements (shape %v) in %s", count, shape, listsFor(dtype)), "none")
	case used == listRaw && dtype == tensor.String, used > listRaw && used != typed:
		want := fmt.Sprintf("%v elements in %s", dtype, listsFor(dtype))
		return listNone, fault(listNames[used], want, listNames[used])
	}
	return used, nil
}

// listsFor names the fields that may carry elements of a type.
func listsFor(dtype tensor.DType) string {
	if dtype == tensor.String {
		return listNames[listString]
	}
	return "raw or " + listNames[typedLists[dtype]]
}
