package openinference

import (
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/weftserve/weft/proto/gen/inference"
)

// plain returns a message as the JSON of the protocol has it: fields by their names in the .proto file, and numbers as
// numbers. protobuf's JSON would write numbers of 64 bits as texts. Empty lists and zeros are there, as clients expect;
// messages and members of a oneof only if they are set.
func plain(m protoreflect.Message) map[string]any {
	out := map[string]any{}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		// Left out is what has no zero value to show: a member of a oneof, and a message.
		if f.ContainingOneof() != nil && !m.Has(f) || f.Message() != nil && !f.IsList() && !f.IsMap() && !m.Has(f) {
			continue
		}
		out[string(f.Name())] = plainField(f, m.Get(f))
	}
	return out
}

// plainField returns the value of a field: of a map an object, of a list an array.
func plainField(f protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch {
	case f.IsMap():
		out := map[string]any{}
		v.Map().Range(func(key protoreflect.MapKey, v protoreflect.Value) bool {
			out[key.String()] = plainValue(f.MapValue(), v)
			return true
		})
		return out
	case f.IsList():
		out := make([]any, v.List().Len())
		for i := range out {
			out[i] = plainValue(f, v.List().Get(i))
		}
		return out
	}
	return plainValue(f, v)
}

// plainValue returns one value. A parameter is its value alone, and an enum its name or, where that is unknown, its
// number.
func plainValue(f protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch f.Kind() {
	case protoreflect.MessageKind:
		if p, is := v.Message().Interface().(*inference.InferParameter); is {
			return valueOf(p).any
		}
		return plain(v.Message())
	case protoreflect.EnumKind:
		if named := f.Enum().Values().ByNumber(v.Enum()); named != nil {
			return string(named.Name())
		}
		return int(v.Enum())
	}
	return v.Interface()
}

// listed returns the models of an index: over HTTP the answer is the list itself. It is empty, not null, where there
// are none.
func listed(index *inference.RepositoryIndexResponse) []any {
	out := []any{}
	for _, m := range index.GetModels() {
		out = append(out, plain(m.ProtoReflect()))
	}
	return out
}
