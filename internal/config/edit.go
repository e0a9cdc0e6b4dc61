package config

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// SetNumbers returns the file in which the mapping at section.key holds exactly the given numbers. Comments, order, form
// and everything else stay as they are; only a comment beside a number that goes, goes with it.
//
// The error is a [Faults] when data is no YAML that Decode reads, else it says what in the file cannot be rewritten so;
// file names it there.
func SetNumbers(file string, data []byte, section, key string, numbers map[string]int64) ([]byte, error) {
	numbers = maps.Collect(maps.All(numbers)) // nil is none
	d := &decoder{places: map[string]place{}}
	root := d.parse(data)
	if len(d.faults) > 0 {
		for i := range d.faults {
			d.faults[i].File = file
		}
		return nil, d.faults
	}
	if len(d.lines) > 0 && d.lines[len(d.lines)-1] != "" {
		d.lines = append(d.lines, "")
	}
	e := editor{file: file, lines: d.lines, path: section + "." + key}
	if err := e.setIn(root, section, key, numbers); err != nil {
		return nil, err
	}
	want := withNumbers(values(root), section, key, numbers)
	if reflect.DeepEqual(want, withNumbers(values(root), section, key, nil)) {
		return data, nil
	}
	changed := e.apply()
	if strings.Contains(string(data), "\r\n") {
		changed = strings.ReplaceAll(changed, "\n", "\r\n")
	}
	if bom := "\ufeff"; strings.HasPrefix(string(data), bom) {
		changed = bom + changed
	}
	// The places of what is written come from the parser; whether they were right, reading the result tells.
	again := &decoder{places: map[string]place{}}
	written := again.parse([]byte(changed))
	if len(again.faults) > 0 || !reflect.DeepEqual(want, withNumbers(values(written), section, key, nil)) {
		return nil, e.cannot("the way in which the file is written is not understood well enough")
	}
	return []byte(changed), nil
}

// editor collects changes to the lines of a file.
type editor struct {
	file  string
	lines []string
	path  string // of what is set, for messages
	edits []edit
}

// edit replaces the bytes from one offset to another in the text that the lines make.
type edit struct {
	from, to int
	text     string
}

func (e *editor) cannot(why string) error {
	return fmt.Errorf("%s: %s cannot be rewritten in place: %s; write it as a mapping with one entry a line", e.file, e.path, why)
}

// offset returns where a place is in the text; the column of the end of a line is allowed.
func (e *editor) offset(at place) int {
	offset := 0
	for _, line := range e.lines[:at.line-1] {
		offset += len(line) + 1
	}
	line, column := []rune(e.lines[at.line-1]), at.column-1
	return offset + len(string(line[:min(column, len(line))]))
}

// startOf returns the offset of a line that may be the one behind the last.
func (e *editor) startOf(line int) int {
	if line > len(e.lines) {
		return e.offset(place{len(e.lines), 1})
	}
	return e.offset(place{line, 1})
}

func (e *editor) replace(from, to int, text string) { e.edits = append(e.edits, edit{from, to, text}) }

func (e *editor) apply() string {
	text := strings.Join(e.lines, "\n")
	slices.SortStableFunc(e.edits, func(a, b edit) int { return b.from - a.from })
	for _, edit := range e.edits {
		text = text[:edit.from] + edit.text + text[edit.to:]
	}
	return text
}

// setIn sets section.key below the root, which is nil when the file sets nothing.
func (e *editor) setIn(root ast.Node, section, key string, numbers map[string]int64) error {
	top, ok := root.(*ast.MappingNode)
	if root != nil && !ok {
		return e.cannot("the file is not a mapping")
	}
	outer := find(top, section)
	if outer == nil {
		switch end := e.startOf(len(e.lines)); {
		case len(numbers) == 0:
		case top != nil && top.IsFlowStyle:
			e.prepend(top, section+": {"+key+": "+inline(nil, numbers)+"}")
		default:
			e.replace(end, end, section+":\n  "+key+": "+inline(nil, numbers)+"\n")
		}
		return nil
	}
	middle, ok := outer.Value.(*ast.MappingNode)
	if !ok {
		return e.cannot(section + " is not a mapping")
	}
	inner := find(middle, key)
	if inner == nil {
		switch first := placeOf(middle); {
		case len(numbers) == 0:
		case middle.IsFlowStyle:
			e.prepend(middle, key+": "+inline(nil, numbers))
		default:
			below := e.startOf(placeOf(outer.Key).line + 1)
			e.replace(below, below, strings.Repeat(" ", first.column-1)+key+": "+inline(nil, numbers)+"\n")
		}
		return nil
	}
	entries, ok := inner.Value.(*ast.MappingNode)
	if !ok {
		return e.cannot("it is not a mapping")
	}
	if entries.IsFlowStyle {
		return e.setInline(entries, numbers)
	}
	return e.setLines(inner, entries, numbers)
}

// prepend adds an entry to a mapping in braces.
func (e *editor) prepend(m *ast.MappingNode, entry string) {
	if len(m.Values) > 0 {
		entry += ", "
	}
	at := e.offset(placeOfToken(m.Start)) + 1
	e.replace(at, at, entry)
}

// setInline sets the numbers of a mapping in braces.
func (e *editor) setInline(m *ast.MappingNode, numbers map[string]int64) error {
	var order []string
	same := len(m.Values) == len(numbers)
	for _, entry := range m.Values {
		name, _ := keyText(entry.Key)
		order = append(order, name)
		_, stays := numbers[name]
		same = same && stays
	}
	if same {
		for i, entry := range m.Values {
			if err := e.setNumber(entry, numbers[order[i]]); err != nil {
				return err
			}
		}
		return nil
	}
	from, to := e.offset(placeOfToken(m.Start)), e.offset(placeOfToken(m.End))+1
	if strings.Contains(strings.Join(e.lines, "\n")[from:to], "#") {
		return e.cannot("it is in braces that have comments between them")
	}
	e.replace(from, to, inline(order, numbers))
	return nil
}

// setLines sets the numbers of a mapping that has its entries on lines of their own.
func (e *editor) setLines(parent *ast.MappingValueNode, m *ast.MappingNode, numbers map[string]int64) error {
	added := maps.Clone(numbers)
	last := 0
	for _, entry := range m.Values {
		name, _ := keyText(entry.Key)
		at := placeOf(entry.Key)
		if placeOf(entry.Value).line != at.line {
			return e.cannot(name + " and its number are not on one line")
		}
		last = at.line
		if n, stays := numbers[name]; !stays {
			e.replace(e.startOf(at.line), e.startOf(at.line+1), "")
			continue
		} else if err := e.setNumber(entry, n); err != nil {
			return err
		}
		delete(added, name)
	}
	if len(numbers) == 0 {
		colon := e.offset(placeOfToken(parent.Start)) + 1
		e.replace(colon, colon, " {}")
	}
	indent := strings.Repeat(" ", placeOf(m).column-1)
	below := e.startOf(last + 1)
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(added))) {
		e.replace(below, below, fmt.Sprintf("%s%s: %d\n", indent, quoted(name), added[name]))
	}
	return nil
}

func (e *editor) setNumber(entry *ast.MappingValueNode, n int64) error {
	if _, ok := integer(entry.Value); !ok {
		return e.cannot(describe(entry.Value) + " is not a number")
	}
	tk := entry.Value.GetToken()
	from := e.offset(placeOfToken(tk))
	e.replace(from, from+len(tk.Value), strconv.FormatInt(n, 10))
	return nil
}

// find returns the entry of a mapping that has the key; nil if none has. The mapping may be nil.
func find(m *ast.MappingNode, key string) *ast.MappingValueNode {
	if m == nil {
		return nil
	}
	for _, entry := range m.Values {
		if text, ok := keyText(entry.Key); ok && text == key {
			return entry
		}
	}
	return nil
}

// inline writes the numbers in braces: first those of order, then the others by name.
func inline(order []string, numbers map[string]int64) string {
	var texts []string
	add := func(name string) {
		if n, ok := numbers[name]; ok {
			texts = append(texts, fmt.Sprintf("%s: %d", quoted(name), n))
		}
	}
	for _, name := range order {
		add(name)
	}
	for _, name := range slices.Sorted(maps.Keys(numbers)) {
		if !slices.Contains(order, name) {
			add(name)
		}
	}
	return "{" + strings.Join(texts, ", ") + "}"
}

var plainKey = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]*$`)

// quoted puts a key in quotes where YAML could take it for something else than text.
func quoted(name string) string {
	words := []string{"null", "true", "false", "yes", "no", "on", "off", "y", "n"}
	if !plainKey.MatchString(name) || slices.Contains(words, strings.ToLower(name)) {
		return strconv.Quote(name)
	}
	return name
}

// values turns a node into nested maps and lists of texts.
func values(node ast.Node) any {
	switch n := node.(type) {
	case *ast.MappingNode:
		all := map[string]any{}
		for _, entry := range n.Values {
			key, _ := keyText(entry.Key)
			all[key] = values(entry.Value)
		}
		return all
	case *ast.SequenceNode:
		var all []any
		for _, element := range n.Values {
			all = append(all, values(element))
		}
		return all
	case nil:
		return map[string]any{}
	}
	text, ok := scalarText(node)
	return [2]any{text, ok}
}

// withNumbers returns root with the numbers in section.key, or as they are if nil; what is empty is as if it were not there.
func withNumbers(root any, section, key string, numbers map[string]int64) any {
	top, ok := root.(map[string]any)
	if !ok {
		return root
	}
	middle, ok := top[section].(map[string]any)
	if !ok {
		middle = map[string]any{}
	}
	if numbers != nil {
		entries := map[string]any{}
		for name, n := range numbers {
			entries[name] = [2]any{strconv.FormatInt(n, 10), true}
		}
		middle[key] = entries
	}
	if entries, ok := middle[key].(map[string]any); ok && len(entries) == 0 {
		delete(middle, key)
	}
	if top[section] = middle; len(middle) == 0 {
		delete(top, section)
	}
	return top
}
