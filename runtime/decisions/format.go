package decisions

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
)

// Format is the number of the files' format. A change that an older server would misread raises it.
const Format = 2

// file is the stored form of a model, as JSON. docs/reference/state-directory.md describes it.
type file struct {
	Format int    `json:"format"`
	Name   string `json:"model"`
	Model
}

// maxFile bounds the bytes of a file: a start reads all of them. A rollout with all its evidence takes a few megabytes.
const maxFile = 64 << 20

// encode returns the content of a model's file.
func encode(name string, m Model) ([]byte, error) {
	text, err := json.MarshalIndent(file{Format, name, m}, "", "  ")
	if err == nil && len(text) >= maxFile {
		err = fmt.Errorf("they take %d bytes, and a file of the state directory has at most %d", len(text), maxFile)
	}
	return append(text, '\n'), err
}

// decode reads the content of a model's file, and returns the model's name: that of the file where it has none. The
// error says what is wrong with the content.
func decode(stem string, text []byte) (string, Model, error) {
	var head struct{ Format int }
	if err := json.Unmarshal(text, &head); err != nil {
		return stem, Model{}, fmt.Errorf("it is no JSON: %w", err)
	}
	if head.Format != Format {
		return stem, Model{}, fmt.Errorf("it has format %d, and this server reads %d", head.Format, Format)
	}
	var f file
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return stem, Model{}, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return stem, Model{}, errors.New("something follows its end")
	}
	if stemOf(f.Name) != stem {
		return stem, Model{}, fmt.Errorf("it is of model %q", f.Name)
	}
	return f.Name, f.Model, f.check()
}

// check returns an error for content that no server would have written.
func (f *file) check() error {
	if f.Traffic == nil || f.Traffic.Revision == 0 || f.Traffic.Revision > math.MaxInt64 {
		return fmt.Errorf("it has no revision of the traffic from 1 to %d", math.MaxInt64)
	}
	if err := f.Traffic.Check(); err != nil {
		return err
	}
	for label, l := range f.Labels {
		if l.Version < 0 {
			return fmt.Errorf("label %q names version %d", label, l.Version)
		}
	}
	return nil
}
