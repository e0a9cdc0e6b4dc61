package main

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/weftserve/weft/internal/config"
)

var update = flag.Bool("update", false, "rewrite docs/reference/cli.md")

const page = "../../docs/reference/cli.md"

// row is an argument or a flag of a command, as the page has it.
type row struct{ name, text string }

// TestPage: docs/reference/cli.md has what --help says, and each command's example is a command line that the program
// takes. `make generate` writes the page.
func TestPage(t *testing.T) {
	parser, err := newParser(&commandLine{}, streams{out: io.Discard, err: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	commands := parser.Model.Leaves(true)
	var groups []string
	uses := map[row][]string{} // by which commands
	for _, command := range commands {
		example := command.Tag.Get("example")
		parts := strings.Split(example, "'")
		for i := 1; i < len(parts); i += 2 { // in quotation marks: JSON, which needs no spaces
			parts[i] = strings.ReplaceAll(parts[i], " ", "")
		}
		words := strings.Fields(strings.Join(parts, ""))
		if len(words) < 2 || words[0] != "weft" {
			t.Fatalf("%s has no example", command.FullPath())
		}
		if _, err := parser.Parse(words[1:]); err != nil {
			t.Errorf("%s: the example %q: %v", command.FullPath(), example, err)
		}
		group := groupOf(command)
		if !slices.Contains(groups, group) {
			groups = append(groups, group)
		}
		if slices.ContainsFunc(flagsOf(command), isTLS) != (group != "Serve" && group != "Tools") {
			t.Errorf("%s: the page says the opposite of whether it has TLS flags", command.FullPath())
		}
		for _, r := range rowsOf(command) {
			uses[r] = append(uses[r], "`"+command.FullPath()[len("weft "):]+"`")
		}
	}
	text := written(commands, groups, uses)
	if *update {
		if err := os.WriteFile(page, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(page); err != nil || string(have) != text {
		t.Errorf("%s is not what --help says: run make generate, and commit the result", page)
	}
}

// longest is how many bytes the flags of a command have in the table of its group: more stand in a section.
const longest = 400

// manyUses is how many commands have an argument or a flag that stands once for all of them.
const manyUses = 3

// written is the page: by groups, a table of the commands, and then a section for each that has many flags. What three
// commands or more have stands once, at the end.
func written(commands []*kong.Node, groups []string, uses map[row][]string) string {
	var page strings.Builder
	page.WriteString(`# Commands

The commands of ` + "`weft`" + `, their arguments and flags, as ` + "`--help`" + ` prints them. *Also* names [shared flags](#shared-flags).
To name the server, use ` + "`--target` for `bench` and `replay`, `--address` for other questions, and `--admin`" + ` for changes.

| exit status | meaning |
|--:|---|
| 0 | success; for ` + "`replay`" + ` also PROMOTE |
| 1 | failure, such as a fault in a model that ` + "`check`" + ` finds, a malformed ` + "`--address`" + `, or no answer from the server |
| 2 | ` + "`weft`" + ` refused the command line or the settings before the command began |
| 3, 4 | HOLD, ROLLBACK (` + "`replay`" + ` only) |
`)
	var shared []row
	for _, group := range groups {
		var table, sections strings.Builder
		for _, command := range commands {
			if groupOf(command) != group {
				continue
			}
			var own []row
			for _, r := range rowsOf(command) {
				if len(uses[r]) < manyUses {
					own = append(own, r)
				} else if r.name != "`<model>`" && !slices.Contains(shared, r) {
					shared = append(shared, r)
				}
			}
			if len(strings.Join(texts(own), " ")) < longest {
				table.WriteString(lineOf(command, own, uses))
			} else {
				name := command.FullPath()
				fmt.Fprintf(&table, "| %s | %s | [flags](#%s) |\n", calledOf(command), command.Help,
					strings.ReplaceAll(name, " ", "-"))
				sections.WriteString(sectionOf(command, own, uses))
			}
		}
		fmt.Fprintf(&page, "\n## %s\n\n| command and example | what it does | arguments and flags |\n|---|---|---|\n%s%s",
			group, table.String(), sections.String())
	}
	page.WriteString("\n## Shared flags\n\n| flag | meaning | commands |\n|---|---|---|\n")
	for _, r := range shared {
		fmt.Fprintf(&page, "| %s | %s |\n", strings.Replace(r.text, ": ", " | ", 1), strings.Join(uses[r], ", "))
	}
	for _, text := range tlsOf(commands) {
		text = strings.Replace(text, ": ", " | ", 1)
		fmt.Fprintf(&page, "| %s | TLS: all that ask a server or change what is served |\n", text)
	}
	return page.String()
}

// lineOf is a command in the table of its group.
func lineOf(command *kong.Node, own []row, uses map[row][]string) string {
	does := strings.TrimSpace(command.Help + " " + detailOf(command))
	flags := texts(own)
	if also := alsoOf(command, uses); also != "" {
		flags = append(flags, also)
	}
	return fmt.Sprintf("| %s | %s | %s |\n", calledOf(command), code(does), strings.Join(flags, " <br> "))
}

// sectionOf is the flags of a command in a section of its own.
func sectionOf(command *kong.Node, own []row, uses map[row][]string) string {
	text := strings.TrimSpace(code(detailOf(command)) + " " + alsoOf(command, uses))
	return fmt.Sprintf("\n### %s\n\n%s\n\n- %s\n", command.FullPath(), wrapped(text), strings.Join(texts(own), "\n- "))
}

// calledOf is how a command is called, with an example.
func calledOf(command *kong.Node) string {
	called := "`weft " + strings.TrimSuffix(command.Summary(), " [flags]") + "`"
	if example := "`" + command.Tag.Get("example") + "`"; example != called {
		called += " <br> " + example
	}
	return called
}

// alsoOf names the flags of a command that stand elsewhere.
func alsoOf(command *kong.Node, uses map[row][]string) string {
	var also []string
	for _, r := range rowsOf(command) {
		if len(uses[r]) >= manyUses && r.name != "`<model>`" {
			also = append(also, r.name)
		}
	}
	if slices.ContainsFunc(flagsOf(command), isTLS) {
		also = append(also, "TLS")
	}
	also = append(also, placesOf(command)...)
	if also == nil {
		return ""
	}
	return "Also " + strings.Join(also, ", ") + "."
}

var (
	quoted   = regexp.MustCompile(`"(weft [^"]*)"`)
	flagWord = regexp.MustCompile(`(^|[ (])(--[a-z][a-z0-9-]*|[a-z]+\.(?:policy|onnx|yaml))`)
)

// code marks command lines, flags, keys and files in a text as code.
func code(text string) string {
	parts := strings.Split(quoted.ReplaceAllString(text, "`$1`"), "`")
	for i := 0; i < len(parts); i += 2 {
		parts[i] = flagWord.ReplaceAllString(parts[i], "$1`$2`")
	}
	return strings.Join(parts, "`")
}

var otherPage = regexp.MustCompile(`docs/([a-z-]+/([a-z-]+)\.md)`)

// detailOf is what --help says below the flags, without the example. Other pages become links.
func detailOf(command *kong.Node) string {
	_, detail, _ := strings.Cut(command.Detail, "\n\n")
	return otherPage.ReplaceAllString(strings.ReplaceAll(detail, "\n", " "), "[$2](../$1)")
}

// groupOf is the heading under which a command stands.
func groupOf(command *kong.Node) string {
	for command.Group == nil {
		command = command.Parent
	}
	return strings.TrimSuffix(command.Group.Title, ":")
}

// rowsOf returns the arguments and flags of a command, but not those of groups that stand elsewhere.
func rowsOf(command *kong.Node) (rows []row) {
	for _, argument := range command.Positional {
		name := "`" + argument.Summary() + "`"
		rows = append(rows, row{name, name + ": " + cell(argument.Help)})
	}
	for _, f := range flagsOf(command) {
		if f.Name != "help" && place(command, f) == "" {
			rows = append(rows, flagRow(f))
		}
	}
	return rows
}

// flagRow is a flag with its default, or with what stands for its value; a switch has neither.
func flagRow(f *kong.Flag) row {
	name := "--" + f.Name
	if f.Tag.Negatable != "" {
		name = "--[no-]" + f.Name
	}
	text := "`" + name + "`"
	switch {
	case f.IsBool():
	case f.Default != "":
		text = fmt.Sprintf("`%s` (default `%s`)", name, f.Default)
	default:
		text = fmt.Sprintf("`%s %s`", name, strings.Trim(f.FormatPlaceHolder(), `"`))
	}
	return row{"`" + name + "`", text + ": " + cell(f.Help)}
}

// tlsFlags is the place of the TLS flags, which a command does not name.
const tlsFlags = "TLS flags"

// place is where a flag of a command is explained, if not with the command.
func place(command *kong.Node, f *kong.Flag) string {
	switch {
	case f.Group == nil:
		return ""
	case isTLS(f):
		return tlsFlags
	case f.Group.Key == "Rollout" && command.Name == "push":
		return "the [flags of `weft rollout start`](#weft-rollout-start) but its versions, with `--rollout`"
	case strings.HasSuffix(f.Group.Key, ":") && slices.Contains(settings(), f.Name):
		return "the [settings](settings.md)"
	}
	return ""
}

// settings are the names of the flags that are settings of a server.
func settings() (names []string) {
	of := reflect.TypeFor[config.Server]()
	for field := range of.Fields() {
		names = append(names, field.Tag.Get("name"))
	}
	return names
}

// placesOf are the places that a command names of its flags.
func placesOf(command *kong.Node) (places []string) {
	for _, f := range flagsOf(command) {
		if p := place(command, f); p != "" && p != tlsFlags && !slices.Contains(places, p) {
			places = append(places, p)
		}
	}
	return places
}

func isTLS(f *kong.Flag) bool { return f.Group != nil && f.Group.Key == "TLS" }

// tlsOf are the flags by which commands call a server over TLS.
func tlsOf(commands []*kong.Node) []string {
	found := map[string]string{}
	for _, command := range commands {
		for _, f := range flagsOf(command) {
			if isTLS(f) {
				found[f.Name] = flagRow(f).text
			}
		}
	}
	return slices.Sorted(maps.Values(found))
}

func texts(rows []row) (list []string) {
	for _, r := range rows {
		list = append(list, r.text)
	}
	return list
}

// wrapped breaks a text into lines of at most 120 columns.
func wrapped(text string) string {
	parts := strings.Split(text, "`")
	for i := 1; i < len(parts); i += 2 { // a command line stays whole
		parts[i] = strings.ReplaceAll(parts[i], " ", "\x00")
	}
	var lines []string
	for word := range strings.FieldsSeq(strings.Join(parts, "`")) {
		if last := len(lines) - 1; last >= 0 && len(lines[last])+1+len(word) <= 120 {
			lines[last] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return strings.ReplaceAll(strings.Join(lines, "\n"), "\x00", " ")
}

// cell is a text in which Markdown finds no HTML.
func cell(text string) string { return code(strings.ReplaceAll(text, "<", `\<`)) }
