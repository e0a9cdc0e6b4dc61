package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoticeIsCurrent: NOTICE says what the go command says of the program that is built today.
func TestNoticeIsCurrent(t *testing.T) {
	modules, err := modulesOf(t.Context(), "../../cmd/weft")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	if err := writeNotice(&want, modules); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../NOTICE")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want.String() {
		t.Error("NOTICE is not what `go run ./scripts/sbom --notice >NOTICE` writes: run that")
	}
	if n := strings.Count(want.String(), "\n  "); n != len(modules) || n < 20 {
		t.Errorf("%d lines for %d modules", n, len(modules))
	}
}

// TestTexts: each module's licence is there as it is.
func TestTexts(t *testing.T) {
	modules, err := modulesOf(t.Context(), "../../cmd/weft")
	if err != nil {
		t.Fatal(err)
	}
	var texts strings.Builder
	if err := writeTexts(t.Context(), &texts, modules); err != nil {
		t.Fatal(err)
	}
	for _, m := range modules {
		names, err := files(m.Dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(texts.String(), "=== "+m.Path+" "+m.Version+": "+filepath.Base(name)+"\n\n"+string(text)) {
				t.Errorf("%s %s is missing", m.Path, name)
			}
		}
	}
}

// TestAnUnknownLicenceIsAFault, and so is none.
func TestAnUnknownLicenceIsAFault(t *testing.T) {
	folder := t.TempDir()
	_, err := licenceOf(source{Path: "example.org/a", Dir: folder})
	if err == nil || !strings.Contains(err.Error(), "no licence") {
		t.Errorf("without a licence: %v", err)
	}
	path := filepath.Join(folder, "LICENSE.md")
	for text, want := range map[string]string{
		"All rights reserved.":                     "",
		"Apache  License\n   Version 2.0, January": "Apache-2.0",
		"Permission is hereby granted, free\nof charge, to any person\nobtaining a copy": "MIT",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := licenceOf(source{Path: "example.org/a", Dir: folder}); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}
