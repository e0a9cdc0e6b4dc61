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

// longest is how many bytes a command with its flags has in one item of a list: more stand in a section.
const longest = 600

// manyUses is how many commands have an argument or a flag that stands once for all of them.
const manyUses = 3

// written is the page: by groups, first the commands with few flags, and then a section for each other. What three
// commands or more have stands once, at the end.
func written(commands []*kong.Node, groups []string, uses map[row][]string) string {
	var page strings.Builder
	page.WriteString("# Commands\n\n" + wrapped("The commands of `weft` with their usage and flags, as `--help` prints them. Flags "+
		"that several commands have stand [at the end](#shared-flags). Name the server by `--address`, for changes and "+
		"rollouts by `--admin`, in `bench` and `replay` by `--target`. The exit status is 0 on success, 2 for a command "+
		"line or settings that `weft` refuses before the command begins, and 1 for other errors, such as a malformed "+
		"`--address` or a faulty TLS file. `weft replay` also has 3 and 4.") + "\n")
	var shared []row
	for _, group := range groups {
		var short, long strings.Builder
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
			if item := itemOf(command, own); len(item) < longest {
				short.WriteString(item)
			} else {
				long.WriteString(sectionOf(command, own))
			}
		}
		fmt.Fprintf(&page, "\n## %s\n", group)
		if short.Len() > 0 {
			page.WriteString("\n" + short.String())
		}
		page.WriteString(long.String())
	}
	page.WriteString("\n## Shared flags\n\n")
	for _, r := range shared {
		fmt.Fprintf(&page, "- %s For %s.\n", r.text, strings.Join(uses[r], ", "))
	}
	fmt.Fprintf(&page, "\n## TLS flags\n\nFor all commands that ask a server or change what is served.\n\n- %s\n",
		strings.Join(tlsOf(commands), "\n- "))
	return page.String()
}

// itemOf is a command in one item of a list.
func itemOf(command *kong.Node, own []row) string {
	return "- " + strings.Join(append([]string{introOf(command)}, texts(own)...), " ") + "\n"
}

// sectionOf is a command in a section of its own.
func sectionOf(command *kong.Node, own []row) string {
	return fmt.Sprintf("\n### %s\n\n%s\n\n- %s\n", command.FullPath(), wrapped(introOf(command)),
		strings.Join(texts(own), "\n- "))
}

// introOf is how a command is called, and what it does.
func introOf(command *kong.Node) string {
	parts := []string{fmt.Sprintf("`weft %s`: %s", command.Summary(), command.Help), detailOf(command)}
	if example := command.Tag.Get("example"); example != "weft "+command.Name {
		parts = append(parts, "Example: `"+example+"`.")
	}
	if places := placesOf(command); places != nil {
		parts = append(parts, "Also takes "+strings.Join(places, " and ")+".")
	}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), " ")
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
		return "the [flags of `weft rollout start`](#weft-rollout-start) with `--rollout`"
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
func cell(text string) string { return strings.ReplaceAll(text, "<", `\<`) }
