package modelfile

import (
	"bytes"
	"fmt"
	"io"
)

// mistaken returns what a file is that was taken for an ONNX model and cannot be read as one, and what to do; nil if
// that cannot be told.
func mistaken(file io.ReaderAt) error {
	head := make([]byte, 64)
	n, _ := file.ReadAt(head, 0)
	head = head[:n]
	const export = "export the model to ONNX, as docs/PYTHON_POLICIES.md shows"
	for _, known := range []struct {
		at         int
		magic      string
		is, remedy string
	}{
		{0, "version https://git-lfs", "a pointer of Git LFS in the place of the model", "fetch the file itself, with `git lfs pull`"},
		{0, "PK\x03\x04", "a zip archive, as torch.save and Keras write", export},
		{0, "\x80\x02", "a pickle of Python's, as older torch.save and scikit-learn write", export},
		{0, "\x80\x04", "a pickle of Python's", export},
		{0, "\x80\x05", "a pickle of Python's", export},
		{0, "\x89HDF", "a file of HDF5, as Keras writes", export},
		{8, `{"`, "a file of safetensors: weights without a graph", export},
		{0, "GGUF", "a file of GGUF, a format for language models, which Weft does not serve", "serve it with llama.cpp"},
		{4, "TFL3", "a model of TensorFlow Lite", "convert it to ONNX, as with tf2onnx"},
		{0, "\x1f\x8b", "compressed by gzip", "decompress it"},
		{0, "<", "a page of HTML or XML, as a failed download leaves", "download the file again"},
	} {
		if len(head) > known.at && bytes.HasPrefix(head[known.at:], []byte(known.magic)) {
			return fmt.Errorf("it is no ONNX model, but %s; %s", known.is, known.remedy)
		}
	}
	return nil
}
