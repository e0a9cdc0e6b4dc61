package wire

import (
	"google.golang.org/protobuf/encoding/protowire"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server/wire/elements"
)

// protocol is weft.v1.
var protocol = elements.Protocol{Names: [elements.Lists]string{
	elements.Raw: "raw", elements.Float: "float_values", elements.Double: "double_values",
	elements.Int32: "int32_values", elements.Int64: "int64_values", elements.Uint32: "uint32_values",
	elements.Uint64: "uint64_values", elements.Bool: "bool_values", elements.Texts: "string_values",
}}

// field returns the number of a list in a Tensor, and listOf the list of a number.
func field(l elements.List) protowire.Number { return protowire.Number(l) + 2 }

func listOf(number uint64) elements.List { return elements.List(number - 2) }

func cameOf(m *weftv1.Tensor, left elements.Elements) elements.Came {
	return elements.Came{Raw: m.GetRaw(), Texts: m.GetStringValues(), Left: left, Sizes: elements.Sizes{
		elements.Raw: len(m.GetRaw()), elements.Float: len(m.GetFloatValues()),
		elements.Double: len(m.GetDoubleValues()), elements.Int32: len(m.GetInt32Values()),
		elements.Int64: len(m.GetInt64Values()), elements.Uint32: len(m.GetUint32Values()),
		elements.Uint64: len(m.GetUint64Values()), elements.Bool: len(m.GetBoolValues()),
		elements.Texts: len(m.GetStringValues()),
	}}
}
