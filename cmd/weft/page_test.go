package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

var update = flag.Bool("update", false, "rewrite docs/reference/cli.md")

const (
	head         = "| argument or flag | value | |\n|---|---|---|\n"
	rolloutFlags = "| [flags of weft rollout start](#weft-rollout-start) | | |\n"
)

// TestPage: docs/reference/cli.md has what --help says, and each command's example is a command line that the program
// takes. `make generate` writes the page.
func TestPage(t *testing.T) {
	const page = "../../docs/reference/cli.md"
	parser, err := newParser(&commandLine{}, streams{out: io.Discard, err: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	connection := map[string]string{}
	text.WriteString("# Commands\n\nEvery command of `weft` with its flags, as `--help` prints them. This page is written from " +
		"the code by `make generate`.\nThe flags of `serve`, `check` and `place` that stand in groups are [settings](settings.md)." +
		"\n")
	for _, command := range parser.Model.Leaves(true) {
		example := command.Tag.Get("example")
		parts := strings.Split(example, "'")
		for i := 1; i < len(parts); i += 2 { // in quotation marks: JSON, which needs no spaces
			parts[i] = strings.ReplaceAll(parts[i], " ", "")
		}
		words := strings.Fields(strings.Join(parts, ""))
		if len(words) < 2 || words[0] != "weft" {
			t.Errorf("%s has no example", command.FullPath())
			continue
		}
		if _, err := parser.Parse(words[1:]); err != nil {
			t.Errorf("%s: the example %q: %v", command.FullPath(), example, err)
		}
		describe(&text, command, connection)
	}
	fmt.Fprintf(&text, "\n## TLS and tokens\n\nCommands that call a server have these flags.\n\n%s%s", head,
		strings.Join(slices.Sorted(maps.Values(connection)), ""))
	if *update {
		if err := os.WriteFile(page, []byte(text.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(page); err != nil || string(have) != text.String() {
		t.Errorf("%s is not what --help says: run make generate, and commit the result", page)
	}
}

// describe writes the section of a command. The rows of flags that most commands have are collected in connection.
func describe(page *strings.Builder, command *kong.Node, connection map[string]string) {
	fmt.Fprintf(page, "\n## %s\n\n```\n%s\n```\n\n%s\n", command.FullPath(), command.Tag.Get("example"), command.Help)
	_, detail, _ := strings.Cut(command.Detail, "\n\n")
	if detail != "" {
		fmt.Fprintf(page, "\n%s\n", detail)
	}
	var rows []string
	for _, argument := range command.Positional {
		rows = append(rows, fmt.Sprintf("| `%s` | | %s |\n", argument.Summary(), cell(argument.Help)))
	}
	more := ""
	for _, level := range command.AllFlags(true) {
		for _, f := range level {
			name := f.Name
			if f.Tag.Negatable != "" {
				name = "[no-]" + name
			}
			row := fmt.Sprintf("| `--%s` |%s | %s |\n", name, cell(value(f)), cell(f.Help))
			switch {
			case f.Name == "help":
			case f.Group != nil && f.Group.Key == "TLS":
				more = "| [TLS and tokens](#tls-and-tokens) | | |\n"
				connection[f.Name] = row
			case f.Group != nil && f.Group.Key == "Rollout" && command.Name == "push":
				rows = append(slices.DeleteFunc(rows, func(have string) bool { return have == rolloutFlags }), rolloutFlags)
			case f.Group != nil && strings.HasSuffix(f.Group.Key, ":"):
				more = "| [settings](settings.md) | | |\n"
			default:
				rows = append(rows, row)
			}
		}
	}
	rows = append(rows, more)
	if strings.Join(rows, "") != "" {
		page.WriteString("\n" + head + strings.Join(rows, ""))
	}
}

// value is what a flag takes: its default, or what stands for a value; nothing for a switch.
func value(f *kong.Flag) string {
	if f.IsBool() {
		return ""
	}
	return " `" + cmp.Or(f.Default, strings.Trim(f.FormatPlaceHolder(), `"`)) + "`"
}

func cell(text string) string { return strings.NewReplacer("|", `\|`, "<", `\<`).Replace(text) }
