// Command sbom writes what a Weft program is made of, as CycloneDX: its modules, Go's standard library, and the ONNX
// Runtime library that it is used with. With --notice it prints whose code that is, as NOTICE, and with --texts the
// licences that must go with it.
package main

import (
	"context"
	"debug/buildinfo"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/weftserve/weft/internal/ortlib"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintf(os.Stderr, "sbom: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("sbom", flag.ContinueOnError)
	flags.SetOutput(stderr)
	program := flags.String("weft", "bin/weft", "the program, built by Go")
	library := flags.String("onnxruntime-lib", "", "the ONNX Runtime library; empty searches for it as the program does")
	out := flags.String("out", "bin/weft.cdx.json", "the file to write")
	notice := flags.Bool("notice", false, "print NOTICE instead, of ./cmd/weft")
	texts := flags.Bool("texts", false, "print the texts of the licences instead")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *notice || *texts {
		modules, err := modulesOf(ctx, "./cmd/weft")
		if err != nil {
			return err
		}
		if *texts {
			return writeTexts(ctx, stdout, modules)
		}
		return writeNotice(stdout, modules)
	}
	info, err := buildinfo.ReadFile(*program)
	if err != nil {
		return fmt.Errorf("--weft %s: %w; build it by make build", *program, err)
	}
	path, err := find(*library)
	if err != nil {
		return err
	}
	engine, err := engineComponent(path)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(bomOf(info, engine), "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(*out, append(text, '\n'), 0o644)
}

func find(library string) (string, error) {
	if library != "" {
		return ortlib.Named(library)
	}
	return ortlib.Find()
}
