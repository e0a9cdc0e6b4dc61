package openinference

import (
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/weftserve/weft/proto/gen/inference"
)

// plain returns a message as the JSON of the protocol has it: fields by their names, and numbers as numbers, which
// protobuf's JSON writes as texts where they have 64 bits.
func plain(m protoreflect.Message) map[string]any {
	out := map[string]any{}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if f.ContainingOneof() != nil && !m.Has(f) || f.Message() != nil && !f.IsList() && !f.IsMap() && !m.Has(f) {
			continue
		}
		out[string(f.Name())] = plainField(f, m.Get(f))
	}
	return out
}

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

// listed returns the models of an index, which is a list of JSON by itself.
func listed(index *inference.RepositoryIndexResponse) []any {
	out := []any{}
	for _, m := range index.GetModels() {
		out = append(out, plain(m.ProtoReflect()))
	}
	return out
}
