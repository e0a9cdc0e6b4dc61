// Package config reads settings from YAML strictly: every key must be known, every value must fit, and all
// faults are reported together, each with its line.
//
// [Decode] fills an ordinary struct by its yaml tags, over the defaults that it already holds. What it
// understands, and nothing more:
//
//   - a struct is a mapping whose keys are the yaml tags; keys that are absent keep their value;
//   - a map with string keys, and a slice, replace what was there; their elements begin as zero, or as [Defaulter]
//     says;
//   - a pointer to a struct stands for a section that may be absent;
//   - a type with UnmarshalText is read from any scalar, a struct with UnmarshalText also from a mapping;
//   - the field tag enum:"a,b" lists the texts that a field, or each of its elements, may have;
//   - the field tag config:"replace" makes a mapping replace the struct instead of merging with it.
//
// [Server] is the settings of the whole server, as flags and as a file.
//
// YAML that hides settings is refused: anchors, aliases, merge keys, tags, several documents, null values.
package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// Decode reads the YAML in data over the values that *into already holds; into is a pointer to a struct. file names the
// source in faults. It then calls the checks, which judge the values by looking at *into; each fault they return is
// given the line of its Key, and is left out if reading that key failed already.
//
// The error is nil or a [Faults] with everything that is wrong; *into then holds the settings that could be read and is
// fit only for further checks. Decode panics when into, or a field in it, has a type that no key can have: that is a
// mistake in the program, not in the file.
func Decode(file string, data []byte, into any, checks ...func() Faults) error {
	_, err := decode(file, data, into, checks...)
	return err
}

// decode is Decode, panics included, and also returns the decoder, which knows the keys that the file sets.
func decode(file string, data []byte, into any, checks ...func() Faults) (*decoder, error) {
	target := reflect.ValueOf(into)
	if target.Kind() != reflect.Pointer || target.Elem().Kind() != reflect.Struct {
		panic(fmt.Sprintf("config.Decode: into is a %T, not a pointer to a struct", into))
	}
	d := &decoder{file: file, root: target.Elem().Type(), places: map[string]place{}}
	if root := d.parse(data); root != nil {
		d.structure("", root, target.Elem())
	}
	d.check(checks)
	for i := range d.faults {
		d.faults[i].File = file
	}
	d.faults.Sort()
	return d, d.faults.Err()
}

// place is a position in the file, both 1-based; the zero value is no position.
type place struct{ line, column int }

func placeOfToken(tk *token.Token) place { return place{tk.Position.Line, tk.Position.Column} }

// placeOf returns where a reader looks for a node.
func placeOf(node ast.Node) place {
	// The token of a mapping is its first colon; a reader looks for the first key.
	if mapping, ok := node.(*ast.MappingNode); ok && !mapping.IsFlowStyle && len(mapping.Values) > 0 {
		return placeOf(mapping.Values[0].Key)
	}
	return placeOfToken(node.GetToken())
}

// decoder is one reading of one file. It goes on after a fault, so that all are reported together.
type decoder struct {
	file   string
	lines  []string         // the source, for Fault.Text
	root   reflect.Type     // of the struct being filled
	places map[string]place // key path, or path of a list element -> where it stands; only settings in the file
	faults Faults
}

// maxFaults is how many faults are listed, for a file that is nothing like settings.
const maxFaults = 100

// fault adds a fault and returns it, to be completed before the next one is added. Beyond maxFaults it returns one that
// nobody sees.
func (d *decoder) fault(at place, key, message string) *Fault {
	if len(d.faults) >= maxFaults {
		if len(d.faults) == maxFaults {
			d.faults.Addf("", "there is more; the first %d faults are reported", maxFaults)
		}
		return &Fault{}
	}
	f := Fault{Line: at.line, Column: at.column, Key: key, Message: message, Open: true}
	if at.line >= 1 && at.line <= len(d.lines) {
		f.Text = d.lines[at.line-1]
	}
	d.faults = append(d.faults, f)
	return &d.faults[len(d.faults)-1]
}

// check runs the checks and gives their faults their places in the file.
func (d *decoder) check(checks []func() Faults) {
	unread := slices.Clip(d.faults)
	for _, run := range checks {
		for _, f := range run() {
			// A setting that could not be read is still at its default, so that a check of it would only confuse.
			if !slices.ContainsFunc(unread, func(u Fault) bool { return within(f.Key, u.Key) }) {
				found := d.fault(d.nearestPlace(f.Key), f.Key, f.Message)
				_, stands := d.places[f.Key]
				found.Suggestion, found.Open, found.Absent = f.Suggestion, f.Open, !stands
			}
		}
	}
}

// within reports whether key is section or lies below it.
func within(section, key string) bool {
	rest, ok := strings.CutPrefix(key, section)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// nearestPlace returns where a key stands, or the innermost section around it that the file has.
func (d *decoder) nearestPlace(key string) place {
	for key != "" {
		if at, ok := d.places[key]; ok {
			return at
		}
		key = key[:max(strings.LastIndexAny(key, ".["), 0)]
	}
	return place{}
}

// entry is one key of a mapping, with its value.
type entry struct {
	key   string
	path  string
	value ast.Node
}

// entries lists the keys of the mapping at path, in order, each once. It reports faults of keys, and notes the place of
// each key. It returns false if node is no mapping.
func (d *decoder) entries(path string, node ast.Node) ([]entry, bool) {
	mapping, ok := node.(ast.MapNode)
	if !ok {
		d.mismatch(path, node, "a mapping (key: value)")
		return nil, false
	}
	var entries []entry
	firstLine := map[string]int{}
	for it := mapping.MapRange(); it.Next(); {
		at := placeOf(it.Key())
		key, ok := scalarText(it.Key()) // tensor names such as 495 need no quotes
		if !ok || key == "" {
			d.fault(at, path, "expected a name as key, found "+describe(it.Key()))
			continue
		}
		full := join(path, key)
		if line, ok := firstLine[key]; ok {
			d.fault(at, full, fmt.Sprintf("duplicate key; it is set on line %d already", line))
			continue
		}
		firstLine[key] = at.line
		d.places[full] = at
		entries = append(entries, entry{key: key, path: full, value: it.Value()})
	}
	return entries, true
}

// structure reads a mapping into a struct. Keys that are absent leave their fields as they are.
func (d *decoder) structure(path string, node ast.Node, into reflect.Value) {
	entries, ok := d.entries(path, node)
	if !ok {
		return
	}
	fields := fieldsOf(into.Type())
	for _, e := range entries {
		i := slices.IndexFunc(fields, func(f field) bool { return f.key == e.key })
		if i < 0 {
			d.unknown(e, into, fields)
			continue
		}
		value := into.Field(fields[i].index)
		if _, ok := e.value.(ast.MapNode); ok && fields[i].replace {
			value.SetZero()
		}
		d.value(e.path, e.value, value, fields[i].choices)
	}
}

// Outdated are settings that once had more keys.
type Outdated interface {
	// Gone says for each key that is gone what to write instead.
	Gone() map[string]string
}

// unknown adds the fault of an unknown key, with the best help there is: what to write instead of a key that is gone,
// the nearest name here, the same name elsewhere, or all names.
func (d *decoder) unknown(e entry, into reflect.Value, fields []field) {
	f := d.fault(d.places[e.path], e.path, "unknown key")
	if o, is := reflect.TypeAssert[Outdated](into); is && o.Gone()[e.key] != "" {
		f.Message = "this key is gone: " + o.Gone()[e.key]
		return
	}
	siblings := keysOf(fields)
	if f.Suggestion = Nearest(e.key, siblings); f.Suggestion != "" && plain(f.Suggestion) == plain(e.key) {
		return
	}
	// A section that the key stands in is not what it was meant to be.
	if other := elsewhere(e.key, d.root); other != "" && !within(other, e.path) {
		f.Suggestion = other
	}
	if f.Suggestion == "" {
		f.Message += "; valid keys here: " + strings.Join(siblings, ", ")
	}
}

// mapping reads a mapping into a map, which it replaces as a whole.
func (d *decoder) mapping(path string, node ast.Node, into reflect.Value, choices []string) {
	entries, ok := d.entries(path, node)
	if !ok {
		return
	}
	into.Set(reflect.MakeMapWithSize(into.Type(), len(entries)))
	for _, e := range entries {
		value := reflect.New(into.Type().Elem()).Elem()
		setDefaults(value)
		d.value(e.path, e.value, value, choices)
		into.SetMapIndex(reflect.ValueOf(e.key).Convert(into.Type().Key()), value)
	}
}

// list reads a list into a slice, which it replaces as a whole.
func (d *decoder) list(path string, node ast.Node, into reflect.Value, choices []string) {
	sequence, ok := node.(*ast.SequenceNode)
	if !ok {
		d.mismatch(path, node, "a list ([a, b])")
		return
	}
	into.Set(reflect.MakeSlice(into.Type(), len(sequence.Values), len(sequence.Values)))
	for i, element := range sequence.Values {
		at := fmt.Sprintf("%s[%d]", path, i)
		d.places[at] = placeOf(element)
		setDefaults(into.Index(i))
		d.value(at, element, into.Index(i), choices)
	}
}

// Defaulter is implemented by (a pointer to) the element type of a list or map, or the type of a section that may be
// absent, whose absent keys are not zero. SetDefaults is called on each new one, before the keys that the file gives
// are read over it.
type Defaulter interface {
	SetDefaults()
}

// setDefaults sets the defaults of a new element or section. The program could not: it did not know of it.
func setDefaults(element reflect.Value) {
	if element, ok := reflect.TypeAssert[Defaulter](element.Addr()); ok {
		element.SetDefaults()
	}
}

// join returns the dotted path of a key below a path; "" is the top level.
func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
