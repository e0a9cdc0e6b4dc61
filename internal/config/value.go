package config

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// value reads node, which stands at path, into the addressable value into. If choices is not nil, a text must be one of
// them. A value that does not fit is a fault.
func (d *decoder) value(path string, node ast.Node, into reflect.Value, choices []string) {
	if _, ok := node.(*ast.NullNode); ok {
		d.mismatch(path, node, "a value (remove the key to keep the default)")
		return
	}
	_, isMapping := node.(ast.MapNode)
	text, hasText := reflect.TypeAssert[encoding.TextUnmarshaler](into.Addr())
	switch {
	// A struct with UnmarshalText has a short form: one scalar instead of a mapping.
	case hasText && !(isMapping && into.Kind() == reflect.Struct):
		if source, ok := scalarText(node); !ok {
			d.mismatch(path, node, "a single value")
		} else if err := text.UnmarshalText([]byte(source)); err != nil {
			d.fault(d.places[path], path, err.Error()).Open = false
		}
	case into.Kind() == reflect.Pointer:
		if into.IsNil() {
			into.Set(reflect.New(into.Type().Elem()))
			setDefaults(into.Elem())
		}
		d.value(path, node, into.Elem(), choices)
	case into.Kind() == reflect.Struct:
		d.structure(path, node, into)
	case into.Kind() == reflect.Map:
		d.mapping(path, node, into, choices)
	case into.Kind() == reflect.Slice:
		d.list(path, node, into, choices)
	default:
		d.scalar(path, node, into, choices)
	}
}

// scalar reads a number, a truth value or a text by the kind of into. It panics on a kind that it does not know: the
// program chose that, not the file.
func (d *decoder) scalar(path string, node ast.Node, into reflect.Value, choices []string) {
	switch into.Kind() {
	case reflect.Bool:
		if n, ok := node.(*ast.BoolNode); ok {
			into.SetBool(n.Value)
			return
		}
		d.mismatch(path, node, "true or false")
	case reflect.String:
		d.str(path, node, into, choices)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n, ok := integer(node)
		switch _, isNumber := node.(*ast.IntegerNode); {
		case ok && !into.OverflowInt(n):
			into.SetInt(n)
		case ok:
			d.mismatch(path, node, fmt.Sprintf("a whole number of at most %d bits", into.Type().Bits()))
		case isNumber:
			d.mismatch(path, node, "a whole number in plain decimal digits")
		default:
			d.mismatch(path, node, "a whole number")
		}
	case reflect.Uint64:
		if n, ok := integer(node); ok && n >= 0 {
			into.SetUint(uint64(n))
			return
		}
		d.mismatch(path, node, "a whole number from 0 to 9223372036854775807")
	case reflect.Float64:
		if n, ok := number(node); ok {
			into.SetFloat(n)
			return
		}
		d.mismatch(path, node, "a number")
	default:
		panic(fmt.Sprintf("config: %s has type %v, which no key may have", path, into.Type()))
	}
}

// str reads a text. A number or a truth value is no text without quotes: 1.10 would lose its zero.
func (d *decoder) str(path string, node ast.Node, into reflect.Value, choices []string) {
	s, ok := stringOf(node)
	switch {
	case choices == nil && !ok:
		d.mismatch(path, node, "text (put it in quotes)")
	case choices == nil || ok && slices.Contains(choices, s):
		into.SetString(s)
	default:
		d.mismatch(path, node, oneOf(choices)).Suggestion = Nearest(s, choices)
	}
}

// oneOf names the valid texts for "expected ...".
func oneOf(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return "one of " + strings.Join(names, ", ")
}

// mismatch adds a fault at the place of the key, or at that of the node if there is no key, and returns it for a
// suggestion.
func (d *decoder) mismatch(path string, node ast.Node, expected string) *Fault {
	at, ok := d.places[path]
	if !ok {
		at = placeOf(node)
	}
	return d.fault(at, path, "expected "+expected+", found "+describe(node))
}

// integer returns a whole number that is written in plain decimal digits. 010, which some versions of YAML read as
// eight, is refused.
func integer(node ast.Node) (int64, bool) {
	n, ok := node.(*ast.IntegerNode)
	if !ok || n.Token.Type != token.IntegerType {
		return 0, false
	}
	switch v := n.Value.(type) {
	case int64:
		return v, true
	case uint64:
		return int64(v), v <= math.MaxInt64
	}
	return 0, false
}

// number returns any finite number. Infinities and NaN are refused, because comparisons with bounds would not hold.
func number(node ast.Node) (float64, bool) {
	switch n := node.(type) {
	case *ast.FloatNode:
		return n.Value, !math.IsInf(n.Value, 0) && !math.IsNaN(n.Value)
	case *ast.StringNode:
		// The parser takes 1e-12 for text, because it has no dot; YAML 1.2 and Print take it for a number.
		if n.Token.Type != token.StringType || !exponential.MatchString(n.Value) {
			return 0, false
		}
		f, err := strconv.ParseFloat(n.Value, 64)
		return f, err == nil
	}
	n, ok := integer(node)
	return float64(n), ok
}

// exponential matches a number with an exponent and no dot.
var exponential = regexp.MustCompile(`^[-+]?[0-9]+[eE][-+]?[0-9]+$`)

// stringOf returns the text of a scalar in quotes, in a block, or without quotes if it is nothing else.
func stringOf(node ast.Node) (string, bool) {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	}
	return "", false
}

// scalarText returns the text of any scalar as it was written, for types that read text themselves.
func scalarText(node ast.Node) (string, bool) {
	if s, ok := stringOf(node); ok {
		return s, true
	}
	switch node.(type) {
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return node.GetToken().Value, true
	}
	return "", false
}

// describe says what stands in the file, for "found ...". Fault.Public cuts it off.
func describe(node ast.Node) string {
	switch n := node.(type) {
	case *ast.NullNode:
		return "nothing"
	case *ast.SequenceNode:
		return "a list"
	case ast.MapNode:
		return "a mapping"
	case *ast.StringNode:
		return fmt.Sprintf("the text %q", shorten(n.Value))
	case *ast.LiteralNode:
		return fmt.Sprintf("the text %q", shorten(n.Value.Value))
	}
	return shorten(node.GetToken().Value)
}

// shorten counts characters and not bytes, so that none is cut in two.
func shorten(s string) string {
	// A fault is to stay on a line or two.
	const most = 60
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "..."
	}
	return s
}

// Scalar is any single value, as it was written: a number, true or false, or text. It is for a value with a meaning
// that depends on more than the file.
type Scalar string

// UnmarshalText takes any text.
func (s *Scalar) UnmarshalText(text []byte) error {
	*s = Scalar(text)
	return nil
}

// plainScalar matches text that YAML reads back as it is without quotes: numbers and truth values.
var plainScalar = regexp.MustCompile(`^([-+]?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan|true|false)$`)

// MarshalYAML writes what UnmarshalText reads back to the same text.
func (s Scalar) MarshalYAML() ([]byte, error) {
	if plainScalar.MatchString(string(s)) {
		return []byte(s), nil
	}
	return []byte(strconv.Quote(string(s))), nil // its escapes are YAML's
}
