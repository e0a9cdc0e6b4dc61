package archtest

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"
)

// A paragraph, or an item of a list, has at most this many lines of this many columns.
const (
	paragraphLines = 5
	pageColumns    = 120
)

var (
	listItem = regexp.MustCompile(`^\s*([-*+]|\d+\.) `)
	heading  = regexp.MustCompile(`^#{1,6} `)
)

// pageNames are the documents in the root and in docs that people write: not the reports of programs.
func pageNames(root fs.FS) []string {
	names := []string{"README.md", "CONTRIBUTING.md", "SECURITY.md"}
	for _, pattern := range []string{"docs/*.md", "docs/*/*.md"} {
		found, _ := fs.Glob(root, pattern) // the patterns are well-formed
		names = append(names, slices.DeleteFunc(found, func(name string) bool {
			return strings.HasPrefix(name, "docs/bench/") || strings.HasPrefix(name, "docs/sim/")
		})...)
	}
	return slices.DeleteFunc(names, func(name string) bool {
		_, err := fs.Stat(root, name)
		return err != nil
	})
}

// pages wants every paragraph and list item to be short. Code fences, tables and headings are not counted. A line that
// is wider than a page counts as the lines that it fills.
func pages(root fs.FS) (complaints []string) {
	for _, name := range pageNames(root) {
		text, err := fs.ReadFile(root, name)
		if err != nil {
			complaints = append(complaints, err.Error())
			continue
		}
		complaints = append(complaints, longParagraphs(name, string(text))...)
	}
	return complaints
}

func longParagraphs(name, text string) []string {
	var complaints []string
	begin, lines, fence := 0, 0, ""
	end := func() {
		if lines > paragraphLines {
			complaints = append(complaints, fmt.Sprintf("%s:%d: a paragraph of %d lines, want at most %d: "+
				"split it, or make it a list or a table", name, begin, lines, paragraphLines))
		}
		lines = 0
	}
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case fence != "":
			if strings.HasPrefix(trimmed, fence) {
				fence = ""
			}
			continue
		case strings.HasPrefix(trimmed, "```"):
			end()
			fence = "```"
			continue
		case trimmed == "", strings.HasPrefix(trimmed, "|"), strings.HasPrefix(trimmed, "<!--"), heading.MatchString(line):
			end()
			continue
		case listItem.MatchString(line):
			end()
		}
		if lines == 0 {
			begin = i + 1
		}
		lines += (utf8.RuneCountInString(line) + pageColumns - 1) / pageColumns
	}
	end()
	return complaints
}

func TestPages(t *testing.T) {
	for _, complaint := range pages(root) {
		t.Error(complaint)
	}
}

func TestPagesComplain(t *testing.T) {
	five := strings.Repeat("one line\n", 5)
	wide := strings.Repeat("word ", 25) + "\n" // 125 columns: two lines
	for _, tt := range []struct{ name, page, want string }{
		{"five lines", five, ""},
		{"six lines", "# A\n\n" + five + "more\n", "docs/A.md:3: a paragraph of 6 lines"},
		{"wide lines", wide + wide + wide, "a paragraph of 6 lines"},
		{"two paragraphs", five + "\n" + five, ""},
		{"a list", strings.Repeat("- item\n  goes on\n", 5), ""},
		{"a long item", "1. item\n" + five, "a paragraph of 6 lines"},
		{"a list below its sentence", five + "- item\n", ""},
		{"a table", strings.Repeat("| a | "+strings.Repeat("b", 200)+" |\n", 9), ""},
		{"code", "```sh\n" + five + "\n" + five + five + "```\n", ""},
		{"after code", "```sh\n" + five + "```\n" + five + "more\n", "docs/A.md:8:"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := fstest.MapFS{
				"README.md": {}, "CONTRIBUTING.md": {}, "SECURITY.md": {}, path.Join("docs", "A.md"): {Data: []byte(tt.page)},
			}
			got := strings.Join(pages(files), "\n")
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("complaints %q, want %q", got, tt.want)
			}
		})
	}
}
