package config

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Print returns settings as YAML that Decode reads back to the same values.
func Print(settings any) (string, error) {
	text, err := yaml.MarshalWithOptions(settings, yaml.IndentSequence(true))
	if err != nil {
		return "", fmt.Errorf("config: print %T: %w", settings, err)
	}
	return string(text), nil
}

// Text is settings as Print or PrintChanged gives them. Its JSON form is the object that the YAML stands for.
type Text string

// MarshalJSON returns the settings as an object; no settings are an empty one.
func (t Text) MarshalJSON() ([]byte, error) {
	if t == "" {
		return []byte("{}"), nil
	}
	return yaml.YAMLToJSON([]byte(t))
}

// PrintChanged is Print without the settings that equal those in defaults, a value of the same type; "" if all do. It
// compares the printed forms, so that whatever Print leaves out counts as equal.
func PrintChanged(settings, defaults any) (string, error) {
	var roots [2]ast.Node
	for i, s := range []any{settings, defaults} {
		text, err := Print(s)
		if err != nil {
			return "", err
		}
		file, err := parser.ParseBytes([]byte(text), 0)
		if err != nil {
			return "", fmt.Errorf("config: print %T: %w", s, err)
		}
		roots[i] = file.Docs[0].Body
	}
	changed := without(roots[0], roots[1])
	if len(changed) == 0 {
		return "", nil
	}
	root := roots[0].(*ast.MappingNode)
	root.Values = changed
	return root.String() + "\n", nil
}

// without returns the entries of a mapping that defaults has not, or has with another value. It changes settings: equal
// entries are taken out of the mappings below.
func without(settings, defaults ast.Node) (left []*ast.MappingValueNode) {
	now, is := settings.(*ast.MappingNode)
	if !is {
		return nil
	}
	before, _ := defaults.(*ast.MappingNode)
	for _, entry := range now.Values {
		var same *ast.MappingValueNode
		if before != nil {
			if i := slices.IndexFunc(before.Values,
				func(e *ast.MappingValueNode) bool { return e.Key.String() == entry.Key.String() }); i >= 0 {
				same = before.Values[i]
			}
		}
		if same == nil {
			left = append(left, entry)
			continue
		}
		if inner, is := entry.Value.(*ast.MappingNode); is {
			if inner.Values = without(inner, same.Value); len(inner.Values) == 0 {
				continue
			}
		} else if entry.Value.String() == same.Value.String() {
			continue
		}
		left = append(left, entry)
	}
	return left
}

// Difference is a setting that two configurations of a server have differently.
type Difference struct{ Key, Before, Now string }

func (d Difference) String() string { return fmt.Sprintf("%s: %s, was %s", d.Key, d.Now, d.Before) }

// Differences returns the settings that differ in another configuration, in the order of the settings.
func (s *Server) Differences(now *Server) (all []Difference) {
	before, after := reflect.ValueOf(s).Elem(), reflect.ValueOf(now).Elem()
	for _, f := range fieldsOf(before.Type()) {
		a, b := before.Field(f.index), after.Field(f.index)
		if !reflect.DeepEqual(a.Interface(), b.Interface()) {
			all = append(all, Difference{f.key, fmt.Sprint(flagValue(a)), fmt.Sprint(flagValue(b))})
		}
	}
	return all
}
