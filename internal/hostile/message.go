package hostile

import (
	"math"
	"math/rand/v2"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
)

// Maker makes messages of any kind from their descriptors.
type Maker struct {
	RNG *rand.Rand
	// Words are what strings hold that are not made to harm, such as names that exist.
	Words []string
	// Nasty is the part of the strings that are made to harm, from 0 to 1.
	Nasty float64
}

// maxDepth bounds how deep messages are nested, since some kinds of message contain themselves.
const maxDepth = 5

// Method is a method that may be called.
type Method struct {
	Path  string // such as /weft.v1.PredictionService/Predict
	Input protoreflect.MessageDescriptor
	// Streams says that a caller may send several messages.
	Streams bool
}

// Methods returns all methods of some services, which are given by their full names. It panics if this program has no
// such service.
func Methods(services ...protoreflect.FullName) (out []Method) {
	for _, name := range services {
		d, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
		if err != nil {
			panic(err)
		}
		all := d.(protoreflect.ServiceDescriptor).Methods()
		for i := range all.Len() {
			m := all.Get(i)
			out = append(out, Method{
				Path: "/" + string(name) + "/" + string(m.Name()), Input: m.Input(), Streams: m.IsStreamingClient(),
			})
		}
	}
	return out
}

// Kind returns a kind of message by its full name. It panics if this program has none.
func Kind(name protoreflect.FullName) protoreflect.MessageDescriptor {
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	if err != nil {
		panic(err)
	}
	return d.(protoreflect.MessageDescriptor)
}

// Encode returns a message as bytes, with some texts that are not UTF-8. It panics if the message itself has a text
// that is not UTF-8; Maker makes none.
func Encode(m proto.Message) []byte {
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(err)
	}
	return Spoil(data)
}

// Message returns a message whose fields are each set, or not, at random.
func (k *Maker) Message(d protoreflect.MessageDescriptor) proto.Message {
	m := dynamicpb.NewMessage(d)
	k.fill(m, 0)
	return m
}

// Around sets the string or bytes at the end of a path to text, and makes the messages on the way there. Lists get one
// more element, and maps the key "x". Everything else stays as it is.
func Around(m protoreflect.Message, path []protoreflect.FieldDescriptor, text string) {
	f := path[0]
	set := func(f protoreflect.FieldDescriptor, element protoreflect.Value) protoreflect.Value {
		if f.Message() != nil {
			Around(element.Message(), path[1:], text)
			return element
		}
		return textValue(f, text)
	}
	// Paths go through lists and maps without a step of their own, but for the key or value of a map.
	switch {
	case f.IsMap():
		entries, key := m.Mutable(f).Map(), protoreflect.ValueOfString("x").MapKey()
		if len(path) > 1 && path[1] == f.MapKey() {
			key = protoreflect.ValueOfString(text).MapKey()
			entries.Set(key, entries.NewValue())
			return
		}
		path = path[1:] // the value
		entries.Set(key, set(f.MapValue(), entries.NewValue()))
	case f.IsList():
		list := m.Mutable(f).List()
		list.Append(set(f, list.NewElement()))
	case f.Message() != nil:
		Around(m.Mutable(f).Message(), path[1:], text)
	default:
		m.Set(f, textValue(f, text))
	}
}

// textValue returns a text for a field of strings or bytes. Bytes need not be UTF-8.
func textValue(f protoreflect.FieldDescriptor, text string) protoreflect.Value {
	if f.Kind() == protoreflect.BytesKind {
		return protoreflect.ValueOfBytes(Spoil([]byte(text)))
	}
	return protoreflect.ValueOfString(text)
}

// Texts returns the paths to all strings and bytes of a kind of message, including keys and values of maps. Maps whose
// keys are not strings are left out, with what is below them.
func Texts(d protoreflect.MessageDescriptor) (paths [][]protoreflect.FieldDescriptor) {
	var walk func(protoreflect.MessageDescriptor, []protoreflect.FieldDescriptor)
	walk = func(d protoreflect.MessageDescriptor, before []protoreflect.FieldDescriptor) {
		if len(before) > maxDepth {
			return
		}
		for i := range d.Fields().Len() {
			f := d.Fields().Get(i)
			path := slices.Concat(before, []protoreflect.FieldDescriptor{f})
			// Around sets the key "x" in maps.
			if f.IsMap() && f.MapKey().Kind() != protoreflect.StringKind {
				continue
			}
			switch {
			case f.Message() != nil:
				walk(f.Message(), path)
			case f.Kind() == protoreflect.StringKind, f.Kind() == protoreflect.BytesKind:
				paths = append(paths, path)
			}
		}
	}
	walk(d, nil)
	return paths
}

// fill sets about two thirds of the fields of a message, and messages in it as far as maxDepth.
func (k *Maker) fill(m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		// Fields left out are as common a mistake as wrong ones.
		if k.RNG.IntN(3) == 0 || f.Message() != nil && depth >= maxDepth {
			continue
		}
		switch {
		case f.IsMap():
			entries := m.Mutable(f).Map()
			for range k.RNG.IntN(3) {
				key, value := k.scalar(f.MapKey()).MapKey(), entries.NewValue()
				if f.MapValue().Message() != nil {
					k.fill(value.Message(), depth+1)
				} else {
					value = k.scalar(f.MapValue())
				}
				entries.Set(key, value)
			}
		case f.IsList():
			list := m.Mutable(f).List()
			for range k.RNG.IntN(4) {
				value := list.NewElement()
				if f.Message() != nil {
					k.fill(value.Message(), depth+1)
				} else {
					value = k.scalar(f)
				}
				list.Append(value)
			}
		case f.Message() != nil:
			k.fill(m.Mutable(f).Message(), depth+1)
		default:
			m.Set(f, k.scalar(f))
		}
	}
}

// Word returns one of Words, or a string made to harm.
func (k *Maker) Word() string {
	if len(k.Words) == 0 || k.RNG.Float64() < k.Nasty {
		return Text(k.RNG)
	}
	return k.Words[k.RNG.IntN(len(k.Words))]
}

// numbers are whole numbers at which something tends to change: sizes, signs and the ends of types.
var numbers = []int64{
	0, 1, 2, 3, 4, 5, 7, 8, 64, 255, 1 << 16, -1, -2, math.MaxInt32, math.MinInt32, math.MaxInt64, math.MinInt64,
}

// floats are the same for floating point numbers.
var floats = []float64{
	0, 1, -1, 0.5, math.Pi, math.MaxFloat64, math.SmallestNonzeroFloat64, math.Inf(1), math.Inf(-1), math.NaN(), 1e9,
}

// scalar returns a random value of a field's kind, that of an element for a list. One enum in eight has no name.
func (k *Maker) scalar(f protoreflect.FieldDescriptor) protoreflect.Value {
	n, x := numbers[k.RNG.IntN(len(numbers))], floats[k.RNG.IntN(len(floats))]
	switch f.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(k.Word())
	case protoreflect.BytesKind:
		// Zeros, as many as whole elements of four bytes have: a tensor that may be valid.
		if k.RNG.IntN(2) == 0 {
			return protoreflect.ValueOfBytes(make([]byte, k.RNG.IntN(9)*4))
		}
		return protoreflect.ValueOfBytes(Spoil([]byte(k.Word())))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(n%2 == 0)
	case protoreflect.EnumKind:
		if values := f.Enum().Values(); k.RNG.IntN(8) > 0 {
			return protoreflect.ValueOfEnum(values.Get(k.RNG.IntN(values.Len())).Number())
		}
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(n))
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(float32(x))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(x)
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(n))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(n))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(uint64(n))
	default:
		return protoreflect.ValueOfInt64(n)
	}
}

// Tweak changes one to three fields of a message at random; others stay. So most of a valid message stays valid.
func (k *Maker) Tweak(m proto.Message) {
	at := m.ProtoReflect()
	for range 1 + k.RNG.IntN(3) {
		k.tweak(at, 0)
	}
}

// tweak clears a field, sets it anew, or changes something within it.
func (k *Maker) tweak(m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	if fields.Len() == 0 {
		return
	}
	f := fields.Get(k.RNG.IntN(fields.Len()))
	// A message that lacks a field is as likely to break a server as one that has too many.
	if k.RNG.IntN(6) == 0 {
		m.Clear(f)
		return
	}
	switch {
	case f.IsMap():
		entries := m.Mutable(f).Map()
		key := k.scalar(f.MapKey()).MapKey()
		entries.Range(func(some protoreflect.MapKey, _ protoreflect.Value) bool {
			key = some
			return k.RNG.IntN(2) == 0
		})
		switch {
		case k.RNG.IntN(4) == 0 || f.MapValue().Message() == nil:
			m.Set(f, m.NewField(f))
		case entries.Has(key):
			k.tweak(entries.Mutable(key).Message(), depth+1)
		}
	case f.IsList():
		if list := m.Mutable(f).List(); f.Message() == nil && (list.Len() == 0 || k.RNG.IntN(2) == 0) {
			list.Append(k.scalar(f))
		} else if list.Len() > 0 {
			if i := k.RNG.IntN(list.Len()); f.Message() != nil {
				k.tweak(list.Get(i).Message(), depth+1)
			} else {
				list.Set(i, k.scalar(f))
			}
		}
	case f.Message() != nil:
		if depth < maxDepth {
			k.tweak(m.Mutable(f).Message(), depth+1)
		}
	default:
		m.Set(f, k.scalar(f))
	}
}
