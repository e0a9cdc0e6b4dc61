package modelfile

import (
	"fmt"
	"io"
	"path"
	"strconv"

	"google.golang.org/protobuf/proto"

	"github.com/weftserve/weft/proto/gen/onnx"
)

// embed returns a model with those tensors of external data inside that ONNX Runtime (1.30) takes from a disk only:
// all but the initializers of the main graph. Of these it puts the names in the form that it finds.
func embed(model io.Reader, open func(name string) (*io.SectionReader, error)) ([]byte, error) {
	all, err := io.ReadAll(model)
	if err != nil {
		return nil, err
	}
	m := &onnx.ModelProto{}
	if err := proto.Unmarshal(all, m); err != nil {
		return nil, fmt.Errorf("it is no ONNX model: %w", err)
	}
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
		file, err := open(name)
		if err != nil {
			return nil, err
		}
		offset, _ := strconv.ParseInt(external(t, "offset"), 10, 64) // none: 0
		length, err := strconv.ParseInt(external(t, "length"), 10, 64)
		if err != nil {
			length = file.Size() - offset
		}
		if offset < 0 || length < 0 || offset > file.Size()-length {
			return nil, fmt.Errorf("its tensor %q lies beyond the %d bytes of %s", t.GetName(), file.Size(), name)
		}
		t.RawData = make([]byte, length)
		if _, err := file.ReadAt(t.GetRawData(), offset); err != nil && length > 0 {
			return nil, err
		}
		t.ExternalData, t.DataLocation = nil, nil
	}
	return proto.Marshal(m)
}
