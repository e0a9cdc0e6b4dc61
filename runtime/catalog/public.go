package catalog

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

// Public returns the text of an error that callers may see: neither a path of this machine nor the content of a file of
// settings. The log has the whole. In the tree of err each error that has a method Public() string contributes that; in
// the texts of the others, files below the repositories are named from there on, as <model>/<version>/model.onnx, and
// PublicText does the rest.
func Public(err error, repositories ...string) string {
	text := err.Error()
	each(err, func(e error) {
		if shown, ok := e.(interface{ Public() string }); ok && e.Error() != "" {
			text = strings.ReplaceAll(text, e.Error(), shown.Public())
		}
	})
	for _, path := range repositories {
		if path = strings.TrimRight(path, "/"); filepath.IsAbs(path) {
			text = strings.ReplaceAll(strings.ReplaceAll(text, path+"/", ""), path, "the repository")
		}
	}
	return PublicText(text)
}

// each visits an error and all that it wraps, the outer ones first: their word on the inner ones counts.
func each(err error, visit func(error)) {
	visit(err)
	switch e := err.(type) { //nolint:errorlint // it walks the tree itself
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			each(inner, visit)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			each(inner, visit)
		}
	}
}

// Hidden is an error in whose place callers see Text.
type Hidden struct {
	Err  error
	Text string
}

// Hide returns err so that callers see no more of it than Public returns.
func Hide(err error, repositories ...string) *Hidden {
	return &Hidden{Err: err, Text: Public(err, repositories...)}
}

func (e *Hidden) Error() string { return e.Err.Error() }

// Public returns the text for callers.
func (e *Hidden) Public() string { return e.Text }

// Unwrap returns the whole error.
func (e *Hidden) Unwrap() error { return e.Err }

// The places in their own source, and the machine's name, that engines and drivers put into their errors.
var (
	sourceLine  = regexp.MustCompile(`(?:[\w.+-]*/)*[\w.+-]+\.(?:cc|cpp|cuh?|h|hpp):\d+:? ?`)
	sourceWords = regexp.MustCompile(` ?; ?(?:hostname|file|line)=[^;]*`)
)

// machinePath matches an absolute path of this machine. Not everything with slashes is one: nodes of a model are called
// /encoder/layer.0/MatMul. So it begins with a name that the root folder has.
var machinePath = sync.OnceValue(func() *regexp.Regexp {
	entries, _ := os.ReadDir("/") // where it cannot be read, any name will do
	var names []string
	for _, e := range entries {
		names = append(names, regexp.QuoteMeta(e.Name()))
	}
	if len(names) == 0 {
		names = []string{`[\w.-]+`}
	}
	return regexp.MustCompile("(^|[^\\w./~-])/(?:" + strings.Join(names, "|") +
		")\\b(?:/[^\\s\"'`()\\[\\]{}<>,;:|=]*)?")
})

// PublicText shortens what looks like an absolute path of this machine to the file's name, and removes the places in an
// engine's source where something failed.
func PublicText(text string) string {
	text = strings.ToValidUTF8(text, "�")
	// Expressions take long, and errors come often in overload: each is tried on texts only that it could match.
	if strings.Contains(text, ".c") || strings.Contains(text, ".h") {
		text = sourceLine.ReplaceAllString(text, "")
	}
	if strings.Contains(text, ";") {
		text = sourceWords.ReplaceAllString(text, "")
	}
	if !hasAbsolute(text) {
		return text
	}
	return machinePath().ReplaceAllStringFunc(text, func(match string) string {
		before, path, _ := strings.Cut(match, "/")
		elements := strings.Split(strings.TrimRight(path, "/"), "/")
		if len(elements) < 3 {
			return before + "..." // a home may be called like its user
		}
		return before + ".../" + elements[len(elements)-1]
	})
}

// hasAbsolute reports whether a slash begins a path: there is none before it.
func hasAbsolute(text string) bool {
	for i := range len(text) {
		if text[i] == '/' && (i == 0 || !strings.ContainsRune("./~-_", rune(text[i-1])) && !isWord(text[i-1])) {
			return true
		}
	}
	return false
}

func isWord(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}
