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
	"unicode"
)

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// fenced is code between fences, where brackets are no links.
var fenced = regexp.MustCompile("(?ms)^```.*?^```")

// links wants every link of the documentation within the repository to lead to a file that exists, and to a heading of
// it.
func links(root fs.FS) []string {
	var complaints, names []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "examples/*.md", "runtime/*.md"} {
		found, err := fs.Glob(root, pattern)
		if err != nil {
			return []string{err.Error()}
		}
		names = append(names, found...)
	}
	for _, name := range names {
		text, err := fs.ReadFile(root, name)
		if err != nil {
			complaints = append(complaints, err.Error())
			continue
		}
		for _, m := range link.FindAllStringSubmatch(fenced.ReplaceAllString(string(text), ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if fault := broken(root, name, m[1]); fault != "" {
				complaints = append(complaints, fmt.Sprintf("%s: the link %s: %s", name, m[1], fault))
			}
		}
	}
	return complaints
}

// broken returns the fault of a link of a page, "" if there is none.
func broken(root fs.FS, page, target string) string {
	file, anchor, _ := strings.Cut(target, "#")
	if file = path.Join(path.Dir(page), file); strings.HasPrefix(target, "#") {
		file = page
	}
	if _, err := fs.Stat(root, file); err != nil {
		return "there is no " + file
	}
	if anchor == "" || path.Ext(file) != ".md" {
		return ""
	}
	text, err := fs.ReadFile(root, file)
	if err != nil {
		return err.Error()
	}
	if !slices.Contains(anchors(string(text)), anchor) {
		return fmt.Sprintf("%s has no heading #%s", file, anchor)
	}
	return ""
}

// named are anchors that a page itself sets, such as those of a table's rows.
var named = regexp.MustCompile(`<a id="([^"]+)"></a>`)

// anchors returns the anchors of the headings of a page, as GitHub makes them, and the ones that it sets itself.
func anchors(text string) []string {
	var all []string
	code := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			code = !code
		}
		if code {
			continue
		}
		for _, m := range named.FindAllStringSubmatch(line, -1) {
			all = append(all, m[1])
		}
		if !heading.MatchString(line) {
			continue
		}
		title := link.ReplaceAllString(strings.TrimSpace(strings.TrimLeft(line, "#")), "")
		all = append(all, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, title))
	}
	return all
}

func TestLinks(t *testing.T) {
	for _, complaint := range links(root) {
		t.Error(complaint)
	}
}

func TestLinksComplain(t *testing.T) {
	for _, tt := range []struct{ link, want string }{
		{"B.md", ""},
		{"../README.md", ""},
		{"B.md#what-is-b-and-why", ""},
		{"B.md#figures-raw", ""},
		{"B.md#row", ""},
		{"#here", ""},
		{"https://example.org/gone#there", ""},
		{"C.md", "there is no docs/C.md"},
		{"README.md", "there is no docs/README.md"},
		{"B.md#gone", "docs/B.md has no heading #gone"},
		{"B.md#in-code", "docs/B.md has no heading #in-code"},
		{"B.md#no-heading", "docs/B.md has no heading #no-heading"},
		{"#there", "docs/A.md has no heading #there"},
	} {
		files := fstest.MapFS{
			"README.md":    {Data: []byte("# Here\n")},
			"docs/A.md":    {Data: []byte("# Here\n\n```go\nv[0](x)\n```\n\nsee [this\npage](" + tt.link + ").\n")},
			"docs/raw.txt": {},
			"docs/B.md": {Data: []byte("## What is `B`, and why?\n## Figures ([raw](raw.txt))\n\n" +
				"```sh\n# no heading\n<a id=\"in-code\"></a>\n```\n\n| <a id=\"row\"></a>B | b |\n")},
		}
		got := strings.Join(links(files), "\n")
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s: complaints %q, want %q", tt.link, got, tt.want)
		}
	}
}
