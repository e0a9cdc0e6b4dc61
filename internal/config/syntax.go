package config

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// MaxSize is the size of the largest file that Decode reads. The YAML parser takes quadratic time in the number of keys
// (11 s for 52,000 of them), so that without a bound a file could hold up the server.
const MaxSize = 64 * KiB

// maxDepth bounds how deep lists and mappings nest. The parser recurses and builds a path per level: without a bound, a
// small file of brackets would take gigabytes.
const maxDepth = 32

// lineEnds turns every line end that YAML knows into a line feed, so that lines count here as in editors.
var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// parse turns data into the top-level mapping; nil if the file sets nothing, or if it is not valid YAML. It adds faults
// to d. All checks that bound the work come before the parser.
func (d *decoder) parse(data []byte) (root ast.Node) {
	// The library is trusted to be correct, not to survive every malformed input.
	defer func() {
		if r := recover(); r != nil {
			root = nil
			d.faults.Addf("", "not valid YAML, found to make the parser fail: %v", r)
		}
	}()
	// Some editors begin a file with a byte order mark.
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if Size(len(data)) > MaxSize {
		d.faults.Addf("", "the file is larger than %v, the most that is read", MaxSize)
		return nil
	}
	d.lines = strings.Split(lineEnds.Replace(string(data)), "\n")
	for i, line := range d.lines {
		if !utf8.ValidString(line) {
			d.fault(place{i + 1, 1}, "", "the line is not valid UTF-8")
		}
	}
	if len(d.faults) > 0 {
		return nil
	}
	tokens := lexer.Tokenize(strings.Join(d.lines, "\n"))
	d.vet(tokens)
	if len(d.faults) > 0 {
		return nil
	}
	// The decoder reports duplicate keys itself, with both lines (entries).
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		d.syntaxError(err)
		return nil
	}
	var roots []ast.Node
	for _, doc := range file.Docs {
		if doc.Body != nil {
			roots = append(roots, doc.Body)
		}
	}
	switch len(roots) {
	case 0:
		return nil
	case 1:
		return roots[0]
	}
	d.fault(placeOf(roots[1]), "", "a second document; expected one document per file")
	return nil
}

// refused lists the YAML that is refused, each with the alternative to it.
var refused = map[token.Type]string{
	token.AnchorType:     "anchors (&name) are not supported: write the value out where it is used",
	token.AliasType:      "aliases (*name) are not supported: write the value out where it is used",
	token.MergeKeyType:   "merge keys (<<) are not supported: write the keys out",
	token.TagType:        "tags (!name) are not supported: remove it",
	token.DirectiveType:  "directives (%NAME) are not supported: remove the line",
	token.MappingKeyType: `explicit keys ("? key") are not supported: write "key: value"`,
}

// vet refuses YAML that settings have no use for, and YAML that nests too deep, before the parser spends memory on it.
func (d *decoder) vet(tokens token.Tokens) {
	flow, entries, line := 0, 0, 0
	for _, tk := range tokens {
		if tk.Position.Line != line {
			line, entries = tk.Position.Line, 0
		}
		switch tk.Type {
		case token.MappingStartType, token.SequenceStartType:
			flow++
		case token.MappingEndType, token.SequenceEndType:
			flow--
		case token.SequenceEntryType:
			entries++ // "- - - x" nests once per dash
		}
		if flow > maxDepth || entries > maxDepth {
			d.fault(placeOfToken(tk), "", fmt.Sprintf("nested more than %d deep", maxDepth))
			return
		}
		if why, ok := refused[tk.Type]; ok {
			d.fault(placeOfToken(tk), "", why)
		}
	}
}

// syntaxError adds the parser's error as a fault, at its place if it has one. The parser's words for a tab help nobody,
// so that they are replaced.
func (d *decoder) syntaxError(err error) {
	at, message := place{}, err.Error()
	if positioned, ok := errors.AsType[yaml.Error](err); ok {
		message = positioned.GetMessage()
		if tk := positioned.GetToken(); tk != nil {
			at = placeOfToken(tk)
		}
	}
	if strings.Contains(message, "tab character") || strings.Contains(message, "'\t'") {
		message = "a tab where YAML takes none; use spaces"
	}
	d.fault(at, "", "not valid YAML near here, found "+message)
}
