package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weftserve/weft/internal/config"
)

// For every file Decode returns, its faults point into the file and stay readable, and a file that it accepts survives
// being printed and read again.
func FuzzDecode(f *testing.F) {
	files, err := filepath.Glob("testdata/faults/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(source)
	}
	f.Add([]byte("name: \"on\"\ncount: 10\nshare: 0.5\nwait: 500us\nsizes:\n  - 1\nsection: {x: 1}\nplaces:\n  495: " +
		"{x: 1}\npicked: all\n"))
	f.Fuzz(func(t *testing.T, source []byte) {
		s := defaults()
		err := config.Decode("f.yaml", source, &s, s.check)
		if err == nil {
			readsBack(t, s)
			return
		}
		faults, ok := errors.AsType[config.Faults](err)
		if !ok {
			t.Fatalf("the error is a %T", err)
		}
		if len(faults) > 200 {
			t.Errorf("%d faults", len(faults))
		}
		lines := strings.Count(string(source), "\n") + strings.Count(string(source), "\r") + 1
		for _, fault := range faults {
			if fault.Message == "" || fault.Line < 0 || fault.Line > lines || (fault.Line > 0) != (fault.Column > 0) {
				t.Errorf("fault %+v, of %d lines", fault, lines)
			}
		}
	})
}

func readsBack(t *testing.T, s settings) {
	t.Helper()
	text, err := config.Print(s)
	if err != nil {
		t.Fatal(err)
	}
	again := defaults()
	if err := config.Decode("printed", []byte(text), &again); err != nil {
		t.Fatalf("%v\nin\n%s", err, text)
	}
	if diff := cmp.Diff(s, again, ignorePrivate, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("read back (-want +got):\n%s\nfrom\n%s", diff, text)
	}
}
