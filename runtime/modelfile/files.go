// Package modelfile reads the files that a model is made of, once, into a private copy that nothing on disk changes any
// more, with their SHA-256.
//
// The files are model.onnx and those of external data, which its tensors name. They lie one after the other in one
// file without a name: up to 64 MiB in memory, sealed, above in the directory for temporary files if there is one to
// write to. The engine, its process when that is started again, and proofs all read this copy.
//
// A version's SHA256SUMS (sums.go) says which files it must have.
package modelfile

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// Model is the name of the file that names the others.
const Model = "model.onnx"

// File is one file of a private copy.
type File struct {
	// Name is its path relative to the version's directory, as SHA256SUMS lists it.
	Name string
	// Offset is where it begins in the copy, Size its length, in bytes.
	Offset, Size int64
	SHA256       [sha256.Size]byte
}

// Tensor is an initializer of the graph, and where its elements are in the copy.
type Tensor struct {
	Name  string
	DType int32 // as ONNX numbers element types
	Shape []int64
	// Offset is where it begins in the copy, Size its length, in bytes.
	Offset, Size int64
}

// Files is the private copy of a version's files. Only Close changes it.
type Files struct {
	// List is model.onnx, and then the files of external data by name. Of a joint it is the file that says what is joined,
	// and then those of each part, as "PART/model.onnx".
	List []File
	// Opened is what an engine takes for model.onnx: that file, or the same graph with tensors embedded that engines
	// cannot be given otherwise.
	Opened File
	// Large are the initializers in files of external data that are too large for a message, which ONNX Runtime (1.30)
	// makes of the others.
	Large []Tensor
	copy  *os.File
	// Where they were read from, and how they looked.
	from Place
	seen []source // of the files in List that are on disk
}

// Copy returns the file that holds the copy, which is read-only. It is the caller's only until Close.
func (f *Files) Copy() *os.File { return f.copy }

// Duplicate returns another descriptor of the copy's file.
func (f *Files) Duplicate() (*os.File, error) {
	return os.Open(fmt.Sprintf("/proc/self/fd/%d", f.copy.Fd()))
}

// Graph returns the model file as an engine takes it.
func (f *Files) Graph() *io.SectionReader {
	return io.NewSectionReader(f.copy, f.Opened.Offset, f.Opened.Size)
}

// External returns the files of external data.
func (f *Files) External() (all []File) {
	if f.from.Joint == nil {
		return f.List[1:]
	}
	for _, file := range f.List[1:] {
		if !slices.ContainsFunc(f.from.Joint.Parts, func(p Part) bool { return file.Name == p.Name+"/"+Model }) {
			all = append(all, file)
		}
	}
	return all
}

// file returns a file of the copy; the zero value: there is none.
func (f *Files) file(name string) File {
	for _, file := range f.List {
		if file.Name == name {
			return file
		}
	}
	return File{}
}

// Digest is the SHA-256 of the version's SHA256SUMS as Sums writes it, in hexadecimal digits.
func (f *Files) Digest() string {
	sum := sha256.Sum256(f.Sums())
	return hex.EncodeToString(sum[:])
}

// Sums lists the digests of the files as sha256sum(1) does.
func (f *Files) Sums() []byte {
	var w strings.Builder
	for _, file := range f.List {
		escaped, name := escape(file.Name)
		fmt.Fprintf(&w, "%s%x  %s\n", escaped, file.SHA256, name)
	}
	return []byte(w.String())
}

// Close gives the copy up. Mappings and duplicates of its file stay.
func (f *Files) Close() error { return f.copy.Close() }
