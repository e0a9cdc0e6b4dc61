package ask

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/weftserve/weft/internal/config"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/proto/weftclient"
)

// inputs reads the flags by the signature of the model. It returns all mistakes together, but says what is missing only
// if there are no others: a mistyped name would else be told of twice. A file that cannot be read ends it. In an
// episode the server judges what may be left out, and shapes: a window may bring its newest value only.
func (o *Options) inputs(about *weftv1.GetModelMetadataResponse, kept []*weftv1.KeptInput, in io.Reader) (
	weftclient.Tensors, error,
) {
	specs := about.GetSignature().GetInputs()
	given := weftclient.Tensors{}
	var faults config.Faults
	for _, text := range o.Input {
		spec, value, err := inputOf(specs, text)
		if err != nil {
			faults.Addf("--input", "%v", err)
			continue
		}
		key := "--input " + spec.GetName()
		if given[spec.GetName()] != nil {
			faults.Addf(key, "given twice; expected one value")
			continue
		}
		// A file that cannot be read is no fault of the flags, and ends the command at once.
		if name, is := strings.CutPrefix(value, "@"); is {
			if value, err = read(name, in); err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
		}
		if o.Episode != "" {
			spec = &weftv1.TensorSpec{
				Name: spec.GetName(), Dtype: spec.GetDtype(), Shape: slices.Repeat([]int64{-1}, len(spec.GetShape())),
			}
		}
		t, err := parse(spec, value)
		if err != nil {
			faults.Addf(key, "%v", err)
		}
		given[spec.GetName()] = t
	}
	// An input with a fault is missing here, too, but faults are told first.
	missing := slices.DeleteFunc(slices.Clone(specs), func(s *weftv1.TensorSpec) bool { return given[s.GetName()] != nil })
	if len(faults) == 0 && len(missing) > 0 && o.Episode == "" {
		faults.Addf("--input", "%s%s", wanted(about, missing), without(kept, missing))
	}
	return given, faults.Err()
}

// inputOf returns which input a flag is for, and its value. The names of the signature are tried first, since a name
// may have any character, even an equals sign. A text without a known name is a value if the model has one input. If it
// has several, or the text looks like NAME=VALUE, that is an error.
func inputOf(specs []*weftv1.TensorSpec, text string) (*weftv1.TensorSpec, string, error) {
	var names []string
	for _, s := range specs {
		if value, is := strings.CutPrefix(text, s.GetName()+"="); is {
			return s, value, nil
		}
		names = append(names, s.GetName())
	}
	name, _, named := strings.Cut(text, "=")
	// An equals sign behind a bracket, a quotation mark or an @ belongs to the JSON, or to the name of a file.
	if named && !strings.ContainsAny(name, `["{@`) {
		return nil, "", fmt.Errorf("the model has no input %q; expected one of: %s", name, strings.Join(names, ", "))
	}
	if len(specs) != 1 {
		return nil, "", fmt.Errorf("%s has no name; expected NAME=JSON, with one of: %s", cut(text),
			strings.Join(names, ", "))
	}
	return specs[0], text, nil
}

// read returns what a file has, or the standard input.
func read(name string, in io.Reader) (string, error) {
	if name == "-" {
		text, err := io.ReadAll(in)
		return string(text), err
	}
	text, err := os.ReadFile(name)
	return string(text), err
}

// wanted says which inputs are still to be given, each with an example that can be pasted.
func wanted(about *weftv1.GetModelMetadataResponse, missing []*weftv1.TensorSpec) string {
	var b strings.Builder
	model := about.GetModel()
	fmt.Fprintf(&b, "model %s version %d also takes:\n", model.GetName(), model.GetVersion())
	if len(missing) == len(about.GetSignature().GetInputs()) {
		b.Reset()
		fmt.Fprintf(&b, "model %s version %d takes:\n", model.GetName(), model.GetVersion())
	}
	// Each line shows type and shape, and a flag that can be copied.
	for _, s := range missing {
		fmt.Fprintf(&b, "  %s  %s %s, such as --input %s=%s\n", s.GetName(), dtype(s.GetDtype()), dims(s),
			quoted(s.GetName()), example(s))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// without says which of the missing inputs the server keeps in an episode.
func without(kept []*weftv1.KeptInput, missing []*weftv1.TensorSpec) string {
	var names []string
	for _, s := range missing {
		at := slices.IndexFunc(kept, func(k *weftv1.KeptInput) bool { return k.GetInput() == s.GetName() })
		switch {
		case at < 0:
		case kept[at].GetWindow() > 0:
			names = append(names, "earlier values of "+s.GetName())
		default:
			names = append(names, s.GetName())
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("\nin an episode the server keeps %s: begin one with --episode NAME --begin",
		strings.Join(names, ", "))
}

// quoted returns a name as a shell takes it: a name of other characters than the plain ones stands in single quotes.
func quoted(name string) string {
	plain := func(r rune) bool {
		return r < 0x80 && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_.:/-", r))
	}
	if !strings.ContainsFunc(name, func(r rune) bool { return !plain(r) }) {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}

// dtype returns the name of an element type, such as fp32.
func dtype(d weftv1.DataType) string {
	return strings.ToLower(strings.TrimPrefix(d.String(), "DATA_TYPE_"))
}

// dims returns a shape for people. Open dimensions have their names, such as [batch, 4], or "any".
func dims(s *weftv1.TensorSpec) string {
	var all []string
	for i, extent := range s.GetShape() {
		switch names := s.GetDimNames(); {
		case extent >= 0:
			all = append(all, strconv.FormatInt(extent, 10))
		case i < len(names) && names[i] != "":
			all = append(all, names[i])
		default:
			all = append(all, "any")
		}
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// maxExample bounds the elements of an example. An input with more is better read from a file, and the example says so.
const maxExample = 16

// example returns a value of an input as a shell takes it: nested lists of one repeated element. Open dimensions have
// one member.
func example(s *weftv1.TensorSpec) string {
	element, elements := "0", int64(1)
	switch s.GetDtype() {
	case weftv1.DataType_DATA_TYPE_BOOL:
		element = "false"
	case weftv1.DataType_DATA_TYPE_STRING:
		element = `"text"`
	default:
	}
	// The innermost list is made first, and repeated in the next one.
	for _, extent := range slices.Backward(s.GetShape()) {
		if extent < 0 {
			extent = 1
		}
		if elements *= max(extent, 1); elements > maxExample {
			return "@FILE"
		}
		element = "[" + strings.Join(slices.Repeat([]string{element}, int(extent)), ", ") + "]"
	}
	return "'" + element + "'"
}
