package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weftserve/weft/internal/ortlib/fetch"
)

// source is a module whose code is in the program.
type source struct{ Path, Version, Dir string }

// modulesOf returns the modules of a program for Linux, which has all that others have.
func modulesOf(ctx context.Context, program string) ([]source, error) {
	c := exec.CommandContext(ctx, "go", "list", "-deps", "-json=Module", program)
	c.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=1")
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%v: %w", c.Args, err)
	}
	var modules []source
	for packages := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			Module *struct {
				source

				Main bool
			}
		}
		if err := packages.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		if p.Module != nil && !p.Module.Main && !slices.Contains(modules, p.Module.source) {
			modules = append(modules, p.Module.source)
		}
	}
	slices.SortFunc(modules, func(a, b source) int { return strings.Compare(a.Path, b.Path) })
	return modules, nil
}

// files returns the names of a folder's files that say who may do what with the code.
func files(folder string) (names []string, err error) {
	all, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	for _, e := range all {
		name, _, _ := strings.Cut(strings.ToLower(e.Name()), ".")
		if !e.IsDir() && slices.Contains([]string{"license", "licence", "copying", "notice", "patents"}, name) {
			names = append(names, filepath.Join(folder, e.Name()))
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s has no licence; leave the module out, or ask its authors for one", folder)
	}
	return names, nil
}

// phrases tell licences apart, in this order: some texts contain the next one's phrase, too.
var phrases = []struct{ id, phrase string }{
	{"MPL-2.0", "Mozilla Public License Version 2.0"},
	{"Apache-2.0", "Apache License Version 2.0"},
	{"BSD-3-Clause", "be used to endorse or promote products derived from this software"},
	{"BSD-2-Clause", "Redistributions in binary form must reproduce the above copyright notice"},
	{"MIT", "Permission is hereby granted, free of charge, to any person obtaining a copy"},
	{"ISC", "Permission to use, copy, modify, and/or distribute this software for any purpose"},
}

// licenceOf returns the name of a module's licence.
func licenceOf(m source) (string, error) {
	names, err := files(m.Dir)
	if err != nil {
		return "", err
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		flat := strings.ToLower(strings.Join(strings.Fields(string(text)), " "))
		for _, p := range phrases {
			if strings.Contains(flat, strings.ToLower(p.phrase)) {
				return p.id, nil
			}
		}
	}
	return "", fmt.Errorf("%s: its licence is not known here; add a phrase of it to scripts/sbom", m.Path)
}

//go:embed notice.txt
var head string

// writeNotice writes NOTICE: the product's own, and the licence of each module.
func writeNotice(w io.Writer, modules []source) error {
	var b strings.Builder
	b.WriteString(head)
	for _, m := range modules {
		licence, err := licenceOf(m)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "  %-13s %s\n", licence, m.Path)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeTexts writes the licences and notices of ONNX Runtime, of Go and of each module.
func writeTexts(ctx context.Context, w io.Writer, modules []source) error {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env GOROOT: %w", err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "=== ONNX Runtime\n\n%s\n", fetch.Licence)
	for _, m := range slices.Insert(slices.Clone(modules), 0,
		source{Path: "Go's standard library", Dir: strings.TrimSpace(string(root))}) {
		names, err := files(m.Dir)
		if err != nil {
			return err
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "=== %s: %s\n\n%s\n", strings.TrimSpace(m.Path+" "+m.Version), filepath.Base(name), text)
		}
	}
	_, err = io.WriteString(w, b.String())
	return err
}
