package modelrepo

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/weftserve/weft/runtime/tensor"
)

// Show tells the signature, which Check has found right, what clients of the Open Inference Protocol are to see of its
// tensors. The error is of a file of labels. nil shows nothing else.
func (d *Declared) Show(s *tensor.Signature) error {
	if d == nil {
		return nil
	}
	for i := range d.Inputs {
		if t := &d.Inputs[i]; t.Optional && s.Input(t.Name) >= 0 {
			s.Notes = append(s.Notes, fmt.Sprintf("%s: input %q is optional there, but the model has no default for it, so "+
				"requests must bring it; make it an initializer of the model, too, to have them leave it out",
				filepath.Base(d.File), t.Name))
		}
	}
	for _, side := range []struct {
		declared []DeclaredTensor
		has      []tensor.Spec
	}{{d.Inputs, s.Inputs}, {d.Inputs, s.Optional}, {d.Outputs, s.Outputs}} {
		for i := range side.declared {
			t := &side.declared[i]
			at := slices.IndexFunc(side.has, func(s tensor.Spec) bool { return s.Name == t.Name })
			if at < 0 || t.Shown == nil && t.LabelFile == "" {
				continue
			}
			spec := &side.has[at]
			spec.Shown = &tensor.Shown{LabelFile: t.LabelFile}
			if t.Shown != nil {
				batch := tensor.Shape{tensor.Unknown}[:len(spec.Shape)-len(t.Shape)] // its dimension, where the file has it not
				spec.Shown.Shape, spec.Shown.Own = slices.Concat(batch, t.Shown), slices.Concat(batch, t.Shape)
			}
			if t.LabelFile == "" {
				continue
			}
			var err error
			if spec.Shown.Labels, err = readLabels(filepath.Dir(d.File), t.LabelFile); err != nil {
				return fmt.Errorf("%s: output %q: label_filename %q: %w; put the file there, or remove the field", d.File, t.Name,
					t.LabelFile, err)
			}
		}
	}
	return nil
}

// openAtOnce opens a file to be read; one that is a pipe is not waited for.
func openAtOnce(root *os.Root, name string) (*os.File, error) {
	return root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// readLabels reads a file in the model's directory that has a label in each line.
func readLabels(dir, name string) ([]string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	file, err := openAtOnce(root, name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	const most = 16 << 20
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	if err != nil {
		return nil, err
	}
	if len(text) > most {
		return nil, fmt.Errorf("it has more than %d bytes", most)
	}
	var labels []string
	for line := range strings.Lines(string(text)) {
		labels = append(labels, strings.TrimRight(line, "\r\n"))
	}
	return labels, nil
}

// labelFile judges the name of a file of labels.
func (t *tritonConfig) labelFile(path, name string) string {
	t.told[path] = true
	if name != "" && !filepath.IsLocal(name) {
		t.fault(path, "expected a file in the model's directory, found %q", name)
		return ""
	}
	return name
}
