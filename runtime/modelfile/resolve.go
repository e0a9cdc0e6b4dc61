package modelfile

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/weftserve/weft/proto/gen/onnx"
)

// located is what a graph says of where its tensors are.
type located struct {
	names []string // of the files of external data, cleaned, ascending
	// embed: an engine cannot be given all of them by name, see embed.
	embed bool
	large []largeTensor
	// unreadable is why no engine could read the model; "": one may.
	unreadable string
}

// largeTensor is an initializer of the main graph. Its offset is that in its file, and its size -1 if it reaches to the
// end of that.
type largeTensor struct {
	file string
	Tensor
}

// mostEmbedded is the size in bytes from which on an initializer is large: somewhat below the 2 GiB that a message has.
var mostEmbedded int64 = 2<<30 - 1<<20

// locate returns the files that a model's tensors name. A name that leads out of the version's directory is an error.
// So is a file of another known format; of others that are no model the engine says more.
func locate(model io.ReaderAt, size int64) (l located, err error) {
	kept, unreadable := Slim(model, size)
	m := &onnx.ModelProto{}
	if unreadable == nil {
		unreadable = (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(kept, m)
	}
	if unreadable == nil && m.GetGraph() == nil {
		unreadable = errors.New("it has no graph")
	}
	if unreadable != nil {
		if !errors.Is(unreadable, errTooLarge) {
			l.unreadable = unreadable.Error()
		}
		return l, mistaken(model)
	}
	names := map[string]bool{}
	for t, initializer := range tensors(m) {
		given := external(t, "location")
		name := path.Clean(given)
		if !filepath.IsLocal(given) || name == "." {
			return l, fmt.Errorf("its tensor %q lies in %q, outside the version's directory; put the file there, and its "+
				"path relative to that into the model", t.GetName(), given)
		}
		names[name] = true
		l.embed = l.embed || name != given || !initializer
		if where := extent(t); initializer && (where.Size < 0 || where.Size > mostEmbedded) {
			l.large = append(l.large, largeTensor{name, where})
		}
	}
	l.names = slices.Sorted(maps.Keys(names))
	return l, nil
}

// ExternalNames returns the files that a model names for external data, relative to its own directory, ascending.
func ExternalNames(model io.ReaderAt, size int64) ([]string, error) {
	l, err := locate(model, size)
	return l.names, err
}

// Needs is ExternalNames for a model that is to be stored: a file that no engine could read is an error, too.
func Needs(model io.ReaderAt, size int64) ([]string, error) {
	l, err := locate(model, size)
	if err == nil && l.unreadable != "" {
		err = fmt.Errorf("it is no ONNX model, or a damaged one (%s); export or copy it again", l.unreadable)
	}
	return l.names, err
}

// tensors yields every tensor of a model that lies in another file, however deep in graphs and functions, and whether
// it is an initializer of the main graph.
func tensors(m *onnx.ModelProto) iter.Seq2[*onnx.TensorProto, bool] {
	initializers := map[*onnx.TensorProto]bool{}
	for _, t := range m.GetGraph().GetInitializer() {
		initializers[t] = true
	}
	return func(yield func(*onnx.TensorProto, bool) bool) {
		walk(m.ProtoReflect(), func(t *onnx.TensorProto) bool {
			return t.GetDataLocation() != onnx.TensorProto_EXTERNAL || yield(t, initializers[t])
		})
	}
}

// walk calls visit with each tensor in a message until that returns false.
func walk(m protoreflect.Message, visit func(*onnx.TensorProto) bool) (more bool) {
	if t, is := m.Interface().(*onnx.TensorProto); is {
		return visit(t)
	}
	more = true
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Message() == nil || f.IsMap():
		case f.IsList():
			for i := 0; more && i < v.List().Len(); i++ {
				more = walk(v.List().Get(i).Message(), visit)
			}
		default:
			more = walk(v.Message(), visit)
		}
		return more
	})
	return more
}

// external returns what a tensor says of the file that it lies in.
func external(t *onnx.TensorProto, key string) string {
	for _, e := range t.GetExternalData() {
		if e.GetKey() == key {
			return e.GetValue()
		}
	}
	return ""
}

// extent returns where a tensor is in its file. Its size is -1 if it reaches to the end.
func extent(t *onnx.TensorProto) Tensor {
	where := Tensor{Name: t.GetName(), DType: t.GetDataType(), Shape: t.GetDims(), Size: -1}
	where.Offset, _ = strconv.ParseInt(external(t, "offset"), 10, 64) // none: 0
	if length, err := strconv.ParseInt(external(t, "length"), 10, 64); err == nil {
		where.Size = length
	}
	return where
}
