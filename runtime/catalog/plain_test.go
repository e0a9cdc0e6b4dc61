package catalog

import (
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// notPlain are the parts of a Version that are not plain values, and why they may be there.
var notPlain = map[string]string{
	"Version.Fault":        "an error: those that a version has are made once and never changed",
	"Version.EpisodeState": "it is read from the settings when the version is loaded, and never changed",
	"Version.Signature":    "it is read from the files when the model is opened, and never changed",
	"Version.Live":         "read when it is asked for: what the version counts while it serves",
	"Version.Resident":     "only its host looks into it",
	"Version.Loading":      "read when it is asked for: how far its load is",
}

// TestVersionIsPlain: a Version is published to every goroutine without a lock, so that nothing in it may change or be
// waited for.
func TestVersionIsPlain(t *testing.T) {
	used := map[string]bool{}
	for _, path := range notPlainIn(reflect.TypeFor[Version](), "Version") {
		if notPlain[path] == "" {
			t.Errorf("%s can change, or be waited for: a version is made of plain values", path)
		}
		used[path] = true
	}
	for path := range notPlain {
		if !used[path] {
			t.Errorf("%s is excused, and need not be", path)
		}
	}
	live := reflect.TypeFor[func() Live]()
	if field, _ := reflect.TypeFor[Version]().FieldByName("Live"); field.Type != live {
		t.Errorf("Version.Live is %v, want %v", field.Type, live)
	}
	loading := reflect.TypeFor[func() LoadProgress]()
	if field, _ := reflect.TypeFor[Version]().FieldByName("Loading"); field.Type != loading {
		t.Errorf("Version.Loading is %v, want %v", field.Type, loading)
	}
	for _, path := range append(notPlainIn(reflect.TypeFor[Live](), "Live"),
		notPlainIn(reflect.TypeFor[LoadProgress](), "LoadProgress")...) {
		t.Errorf("%s can change, or be waited for: what Live and Loading return is made of plain values", path)
	}
}

// TestVersionIsPlainComplains: each kind of thing that can change is found, wherever it stands.
func TestVersionIsPlainComplains(t *testing.T) {
	type inner struct {
		Count *int
		Made  map[string]chan int
	}
	type outer struct {
		Name   string
		Sizes  []int
		Inner  []inner
		Call   func()
		Any    any
		Hidden sync.Mutex
		Counts atomic.Int64
	}
	got := strings.Join(notPlainIn(reflect.TypeFor[outer](), "outer"), " ")
	want := "outer.Inner[].Count outer.Inner[].Made outer.Call outer.Any outer.Hidden.mu outer.Counts.v"
	if got != want {
		t.Errorf("found %s, want %s", got, want)
	}
}

// notPlainIn returns the paths to the parts of a type that are not plain: all but numbers, text and times, and structs,
// arrays and slices of them whose fields are exported. A lock or an atomic is no such struct.
func notPlainIn(t reflect.Type, path string) []string {
	if t == reflect.TypeFor[time.Time]() {
		return nil
	}
	switch kind := t.Kind(); {
	case kind == reflect.Struct:
		var found []string
		for field := range t.Fields() {
			switch {
			case field.Name == "_":
			case field.IsExported():
				found = append(found, notPlainIn(field.Type, path+"."+field.Name)...)
			default:
				found = append(found, path+"."+field.Name)
			}
		}
		return found
	case kind == reflect.Slice || kind == reflect.Array:
		return notPlainIn(t.Elem(), path+"[]")
	case kind == reflect.String || kind >= reflect.Bool && kind <= reflect.Float64 && kind != reflect.Uintptr:
		return nil
	}
	return []string{path}
}
