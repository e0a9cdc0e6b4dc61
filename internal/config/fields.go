package config

import (
	"reflect"
	"strings"
)

// field is one key of a struct, as the tags of the Go field describe it.
type field struct {
	key     string
	index   int
	choices []string // all values that it may have, or each of its elements; nil: any
	replace bool     // a mapping replaces the struct instead of merging with it
}

// fieldsOf lists the keys of struct type t in the order of its fields. Fields without a yaml tag are no keys.
func fieldsOf(t reflect.Type) []field {
	var fields []field
	for i := range t.NumField() {
		f := t.Field(i)
		key, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if key == "" || key == "-" || !f.IsExported() {
			continue
		}
		here := field{key: key, index: i, replace: f.Tag.Get("config") == "replace"}
		if enum := f.Tag.Get("enum"); enum != "" {
			here.choices = strings.Split(enum, ",")
		}
		fields = append(fields, here)
	}
	return fields
}

func keysOf(fields []field) []string {
	keys := make([]string, len(fields))
	for i, f := range fields {
		keys[i] = f.key
	}
	return keys
}

// elsewhere returns the path of a key below t with this name, for a key that stands on the wrong level; "" if there is
// none. Types must not be recursive.
func elsewhere(name string, t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return ""
	}
	for _, f := range fieldsOf(t) {
		if plain(f.key) == plain(name) {
			return f.key
		}
		if below := elsewhere(name, t.Field(f.index).Type); below != "" {
			return f.key + "." + below
		}
	}
	return ""
}
