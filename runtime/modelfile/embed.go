package modelfile

import (
	"fmt"
	"io"
	"path"

	"google.golang.org/protobuf/proto"

	"github.com/weftserve/weft/proto/gen/onnx"
)

// embed returns a model with those tensors of external data inside that ONNX Runtime (1.30) takes from a disk only:
// all but the initializers of the main graph. Of these it puts the names in the form that it finds.
func embed(m *onnx.ModelProto, file func(name string) *io.SectionReader) ([]byte, error) {
	for t, initializer := range tensors(m) {
		name := path.Clean(external(t, "location"))
		if initializer {
			for _, e := range t.GetExternalData() {
				if e.GetKey() == "location" {
					e.Value = new(name)
				}
			}
			continue
		}
		data := file(name)
		where, err := extent(t).within(name, data.Size())
		if err != nil {
			return nil, err
		}
		t.RawData = make([]byte, where.Size)
		if _, err := data.ReadAt(t.GetRawData(), where.Offset); err != nil && where.Size > 0 {
			return nil, err
		}
		t.ExternalData, t.DataLocation = nil, nil
	}
	return proto.Marshal(m)
}

// within returns the tensor with its size, in a file of that name and of so many bytes.
func (t Tensor) within(file string, size int64) (Tensor, error) {
	if t.Size < 0 {
		t.Size = size - t.Offset
	}
	if t.Offset < 0 || t.Size < 0 || t.Offset > size-t.Size {
		return t, fmt.Errorf("its tensor %q lies beyond the %d bytes of %s", t.Name, size, file)
	}
	return t, nil
}
