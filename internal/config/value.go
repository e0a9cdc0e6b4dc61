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

// value reads node, which stands at path, into the addressable value into. Texts must be among choices; nil: any text.
func (d *decoder) value(path string, node ast.Node, into reflect.Value, choices []string) {
	if _, ok := node.(*ast.NullNode); ok {
		d.mismatch(path, node, "a value (remove the key to keep the default)")
		return
	}
	_, isMapping := node.(ast.MapNode)
	text, hasText := reflect.TypeAssert[encoding.TextUnmarshaler](into.Addr())
	switch {
	case hasText && !(isMapping && into.Kind() == reflect.Struct):
		if source, ok := scalarText(node); !ok {
			d.mismatch(path, node, "a single value")
		} else if err := text.UnmarshalText([]byte(source)); err != nil {
			d.fault(d.places[path], path, err.Error())
		}
	case into.Kind() == reflect.Pointer:
		if into.IsNil() {
			into.Set(reflect.New(into.Type().Elem()))
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

// scalar reads a plain value. It panics on a type that it does not know, which the program chose, not the file.
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

func oneOf(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return "one of " + strings.Join(names, ", ")
}

func (d *decoder) mismatch(path string, node ast.Node, expected string) *Fault {
	at, ok := d.places[path]
	if !ok {
		at = placeOf(node)
	}
	return d.fault(at, path, "expected "+expected+", found "+describe(node))
}

// integer accepts plain decimal numbers only: 010, which some YAML versions read as eight, is refused.
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

var exponential = regexp.MustCompile(`^[-+]?[0-9]+[eE][-+]?[0-9]+$`)

func stringOf(node ast.Node) (string, bool) {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	}
	return "", false
}

// scalarText returns the text of any scalar as it was written.
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

// describe names the node as it stands in the file, for "found ...".
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

func shorten(s string) string {
	const most = 60
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "..."
	}
	return s
}

// Scalar is any single value, as it was written: a number, true or false, or text. Its reader decides its meaning,
// where that depends on more than the file.
type Scalar string

// UnmarshalText takes any text.
func (s *Scalar) UnmarshalText(text []byte) error {
	*s = Scalar(text)
	return nil
}

// plainScalar matches text that reads the same without quotes.
var plainScalar = regexp.MustCompile(`^([-+]?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan|true|false)$`)

// MarshalYAML is the inverse of reading.
func (s Scalar) MarshalYAML() ([]byte, error) {
	if plainScalar.MatchString(string(s)) {
		return []byte(s), nil
	}
	return []byte(strconv.Quote(string(s))), nil // its escapes are YAML's
}
