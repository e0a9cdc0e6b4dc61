// Package pbtxt reads the settings files of other servers: protobuf messages as text, with the place of each field.
package pbtxt

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/weftserve/weft/internal/config"
)

// Document is a file that was read, with the places of its fields. The path of a field is such as input[0].dims, or
// parameters[key].string_value in a map.
type Document struct {
	file   string
	lines  []string
	places map[string]place
}

// place is a position in the file, both 1-based.
type place struct{ line, column int }

// MaxSize is the size of the largest file that Read reads. Settings are kilobytes, but a list of models may be long.
const MaxSize = 4 * config.MiB

// Read reads the text form of a message into an empty one; file names it in faults. The error is config.Faults with one
// fault: prototext stops at the first, and an unknown field is one.
func Read(file string, data []byte, into proto.Message) (*Document, error) {
	d := &Document{file: file, places: map[string]place{}}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if config.Size(len(data)) > MaxSize {
		return nil, config.Faults{{
			File: file, Message: fmt.Sprintf("the file is larger than %v; expected at most that", MaxSize),
		}}
	}
	d.lines = strings.Split(string(data), "\n")
	if err := (prototext.UnmarshalOptions{}).Unmarshal(data, into); err != nil {
		return nil, config.Faults{d.syntax(err, into.ProtoReflect().Descriptor())}
	}
	// prototext does not tell where fields stand, so that the text is read a second time.
	s := scanner{text: string(data), places: d.places, line: 1, column: 1}
	s.message("", into.ProtoReflect().Descriptor())
	return d, nil
}

// complaint matches an error of prototext: its place, if it has one, and what is wrong. unknown matches what is wrong
// where the message's type has no such field, notOne where an enum has no such value, and before the field whose value
// comes next in a line.
var (
	complaint = regexp.MustCompile(`(?s)^proto:.(?:syntax error )?(?:\(line (\d+):(\d+)\): )?(.*)$`)
	unknown   = regexp.MustCompile(`^unknown (?:map entry )?field:? "?([^"]+)"?$`)
	notOne    = regexp.MustCompile(`^invalid value for enum type: (\w+)$`)
	before    = regexp.MustCompile(`(\w+)\s*:\s*\[?\s*$`)
)

// syntax turns an error of prototext into a fault with a place and, for an unknown field, a suggestion. prototext's
// errors are text: if their form changes, the fault has the end of the file as its place.
func (d *Document) syntax(err error, of protoreflect.MessageDescriptor) config.Fault {
	// Where there is no other place, the text ends too early.
	f := config.Fault{File: d.file, Line: len(d.lines), Column: 1, Open: true}
	what := err.Error()
	if m := complaint.FindStringSubmatch(what); m != nil {
		what = strings.TrimSpace(m[3])
		if m[1] != "" {
			f.Line, _ = strconv.Atoi(m[1])
			f.Column, _ = strconv.Atoi(m[2])
		}
	}
	f.Text = d.text(f.Line)
	f.Message = "expected the text of a " + string(of.Name()) + ", found " + what
	if text := []rune(f.Text); f.Column-1 <= len(text) {
		if m := before.FindStringSubmatch(string(text[:f.Column-1])); m != nil {
			f.Key = m[1]
		}
	}
	names, values := map[string]bool{}, map[string]bool{}
	fieldsOf(of, names, values)
	if m := unknown.FindStringSubmatch(what); m != nil {
		f.Key, f.Message = m[1], "unknown field; expected one of "+string(of.Name())+
			" or of a message in it: correct its name, or remove it"
		if names[m[1]] {
			f.Message = "unknown field here; expected it in another message: move it there, correct its name, or remove it"
			delete(names, m[1])
		}
		f.Suggestion = config.Nearest(m[1], sorted(names))
	} else if m := notOne.FindStringSubmatch(what); m != nil {
		f.Message = "expected a value of its type, found " + m[1]
		f.Suggestion = config.Nearest(m[1], sorted(values))
	}
	return f
}

// text returns a line of the file; "" if there is no such line.
func (d *Document) text(line int) string {
	if line < 1 || line > len(d.lines) {
		return ""
	}
	return strings.TrimSuffix(d.lines[line-1], "\r")
}

// place returns where a field stands, or the innermost message around it that is in the file.
func (d *Document) place(path string) place {
	for path != "" {
		if at, ok := d.places[path]; ok {
			return at
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return place{}
}

// Fault returns a fault of the field at a path, with its place.
func (d *Document) Fault(path, format string, args ...any) config.Fault {
	var one config.Faults
	one.Addf(path, format, args...)
	f, at := one[0], d.place(path)
	f.File, f.Line, f.Column, f.Text = d.file, at.line, at.column, d.text(at.line)
	return f
}

// File returns the name that faults give the file.
func (d *Document) File() string { return d.file }

// Line returns the line of the field at a path, or of the innermost message around it; 0: it is not in the file.
func (d *Document) Line(path string) int { return d.place(path).line }

// Stands reports whether the file has the field at a path, even if with the value that it has without the file.
func (d *Document) Stands(path string) bool {
	_, ok := d.places[path]
	return ok
}
