package pbtxt

import (
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Leaves returns the paths of everything that is set in a message: of its scalars, of lists of scalars, and of messages
// without anything set in them. They come in the order of the fields. A reader that understands only some fields finds
// by them what it would ignore.
func Leaves(m proto.Message) []string { return leaves("", m.ProtoReflect()) }

// leaves is Leaves of a message at a path.
func leaves(path string, m protoreflect.Message) (all []string) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if !m.Has(field) {
			continue
		}
		full := string(field.Name())
		if path != "" {
			full = path + "." + full
		}
		switch value := m.Get(field); {
		case field.IsMap():
			all = append(all, mapLeaves(full, field, value.Map())...)
		case field.Message() == nil:
			all = append(all, full)
		case field.IsList():
			for n := range value.List().Len() {
				all = append(all, orItself(fmt.Sprintf("%s[%d]", full, n), value.List().Get(n).Message())...)
			}
		default:
			all = append(all, orItself(full, value.Message())...)
		}
	}
	return all
}

// mapLeaves returns the leaves of a map, by its sorted keys, because the order of protobuf's maps is random.
func mapLeaves(full string, field protoreflect.FieldDescriptor, entries protoreflect.Map) (all []string) {
	of := map[string]protoreflect.Value{}
	entries.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		of[fmt.Sprintf("%s[%s]", full, k.String())] = v
		return true
	})
	for _, path := range sorted(of) {
		if field.MapValue().Message() == nil {
			all = append(all, path)
		} else {
			all = append(all, orItself(path, of[path].Message())...)
		}
	}
	return all
}

// orItself returns the leaves of a message, or the path of the message itself if it has none.
func orItself(path string, m protoreflect.Message) []string {
	if all := leaves(path, m); len(all) > 0 {
		return all
	}
	return []string{path}
}

// fieldsOf adds the names of a message's fields, and of the fields of messages in it, to a set, and those of the values
// of enums to another, for suggestions. It ends because these messages contain themselves directly or not at all.
func fieldsOf(of protoreflect.MessageDescriptor, names, values map[string]bool) {
	for i := range of.Fields().Len() {
		field := of.Fields().Get(i)
		names[string(field.Name())] = true
		if e := field.Enum(); e != nil {
			for i := range e.Values().Len() {
				values[string(e.Values().Get(i).Name())] = true
			}
		}
		if m := field.Message(); m != nil && m != of {
			fieldsOf(m, names, values)
		}
	}
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
