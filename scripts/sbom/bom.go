package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/weftserve/weft/internal/ortlib"
)

// bom is a bill of materials in the terms of CycloneDX 1.6. It has neither a time nor a serial number, so that the same
// program has the same one.
type bom struct {
	Format   string `json:"bomFormat"`
	Spec     string `json:"specVersion"`
	Version  int    `json:"version"`
	Metadata struct {
		Component component `json:"component"`
	} `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version,omitempty"`
	PURL       string     `json:"purl"`
	Hashes     []hash     `json:"hashes,omitempty"`
	Licenses   []licence  `json:"licenses,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

// licence is one by its name in the list of SPDX.
type licence map[string]map[string]string

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn"`
}

func spdx(id string) []licence { return []licence{{"license": {"id": id}}} }

// bomOf returns that of a program and the library that it loads when it runs.
func bomOf(info *debug.BuildInfo, engine component) bom {
	main := module(&info.Main)
	main.Type, main.Licenses = "application", spdx("Apache-2.0")
	for _, s := range info.Settings {
		if s.Key == "GOOS" || s.Key == "GOARCH" || strings.HasPrefix(s.Key, "vcs.") {
			main.Properties = append(main.Properties, property{"go:" + s.Key, s.Value})
		}
	}
	version := strings.TrimPrefix(info.GoVersion, "go")
	all := []component{engine, {
		Type: "library", Ref: "pkg:golang/std@" + version, Name: "std", Version: version, PURL: "pkg:golang/std@" + version,
		Licenses: spdx("BSD-3-Clause"),
	}}
	for _, d := range info.Deps {
		if d.Replace != nil {
			d = d.Replace
		}
		all = append(all, module(d))
	}
	b := bom{Format: "CycloneDX", Spec: "1.6", Version: 1, Components: all}
	b.Metadata.Component = main
	needs := dependency{Ref: main.Ref}
	for _, c := range all {
		needs.DependsOn = append(needs.DependsOn, c.Ref)
	}
	b.Dependencies = []dependency{needs}
	return b
}

// module is a module of Go. Its sum is that of go.sum, over all files of the module.
func module(m *debug.Module) component {
	c := component{Type: "library", Name: m.Path, Version: m.Version, PURL: "pkg:golang/" + m.Path}
	if m.Version != "" && m.Version != "(devel)" {
		c.PURL += "@" + m.Version
	}
	c.Ref = c.PURL
	if m.Sum != "" {
		c.Properties = []property{{"go:sum", m.Sum}}
	}
	return c
}

// engineComponent is the ONNX Runtime library at a path.
func engineComponent(path string) (component, error) {
	f, err := os.Open(path)
	if err != nil {
		return component{}, fmt.Errorf("ONNX Runtime: %w", err)
	}
	defer f.Close()
	digest := sha256.New()
	if _, err := io.Copy(digest, f); err != nil {
		return component{}, fmt.Errorf("ONNX Runtime: %w", err)
	}
	purl := "pkg:github/microsoft/onnxruntime@v" + ortlib.Version
	return component{
		Type: "library", Ref: purl, Name: "onnxruntime", Version: ortlib.Version, PURL: purl,
		Hashes:     []hash{{"SHA-256", hex.EncodeToString(digest.Sum(nil))}},
		Licenses:   spdx("MIT"),
		Properties: []property{{"file", filepath.Base(path)}},
	}, nil
}
