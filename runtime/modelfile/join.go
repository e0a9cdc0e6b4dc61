package modelfile

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"path"

	"github.com/weftserve/weft/proto/gen/onnx"
)

// Joint says how a version is made of others.
type Joint struct {
	// File is the name of the file that says so, and Text its content.
	File string
	Text []byte
	// Parts are the versions that it is made of.
	Parts []Part
	// Merge makes one model of theirs, which it takes over. A tensor of external data keeps the name of its file.
	Merge func(models []*onnx.ModelProto) (*onnx.ModelProto, error)
}

// Part is a version that is part of another. It may be there more than once.
type Part struct {
	Name  string // what the names of its files in the copy begin with, such as "encoder/3"
	Place Place
}

// join reads the parts, and makes one model of them.
func (r *reader) join(ctx context.Context) error {
	type opened struct {
		at int // in r.sources
		located
	}
	all := map[string]opened{}
	for _, p := range r.Joint.Parts {
		if _, again := all[p.Name]; again {
			continue
		}
		at := len(r.sources)
		l, err := r.openModel(p.Place, p.Name+"/")
		if err != nil {
			return err
		}
		all[p.Name] = opened{at, l}
	}
	if err := r.addAll(ctx); err != nil {
		return err
	}
	var models []*onnx.ModelProto
	for _, p := range r.Joint.Parts {
		o := all[p.Name]
		if err := r.same(r.sources[o.at], o.located); err != nil {
			return err
		}
		m, err := r.parse(r.files.file(p.Name + "/" + Model))
		if err != nil {
			return err
		}
		for t := range tensors(m) {
			for _, e := range t.GetExternalData() {
				if e.GetKey() == "location" {
					e.Value = new(p.Name + "/" + path.Clean(e.GetValue()))
				}
			}
		}
		models = append(models, m)
	}
	merged, err := r.Joint.Merge(models)
	if err != nil {
		return err
	}
	if err := r.embed(merged); err != nil {
		return err
	}
	l, err := locate(r.section(r.files.Opened), r.files.Opened.Size)
	if err != nil {
		return fmt.Errorf("%s: %w", r.path(r.Joint.File), err)
	}
	return r.findLarge(l)
}

// addText adds a file that was read already.
func (r *reader) addText(name string, text []byte) error {
	_, err := io.Copy(io.NewOffsetWriter(r.copy, r.end), bytes.NewReader(text))
	r.files.List = append(r.files.List, File{
		Name: name, Offset: r.end, Size: int64(len(text)), SHA256: sha256.Sum256(text),
	})
	r.skip(int64(len(text)))
	return err
}
