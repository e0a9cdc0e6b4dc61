package config

import (
	"fmt"
	"reflect"
)

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
