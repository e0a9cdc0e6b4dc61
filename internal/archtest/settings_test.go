package archtest

import (
	"flag"
	"fmt"
	"go/ast"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// settingsPage is written from the comments of the fields that hold the settings.
const settingsPage = "docs/reference/settings.md"

var (
	update       = flag.Bool("update", false, "rewrite "+settingsPage)
	fieldWord    = regexp.MustCompile(`\b[A-Z][A-Za-z0-9]*\b`)
	subject      = regexp.MustCompile(`^[A-Z]\w*(?:(?:, [A-Z]\w*)* and [A-Z]\w*)?(?: \(([^()]+)\))? (?:is |are )?`)
	otherPage    = regexp.MustCompile(`\(docs/([a-z-]+/([a-z-]+)\.md)\)`)
	defaultValue = regexp.MustCompile(`default (\{.*\}|\S+)$`)
	// withWord and autoWord are values of settings, and codeWord a key, a file or a command, in a comment after a space.
	withWord = regexp.MustCompile(`\b(With )(auto|require|identity|none|false)\b`)
	autoWord = regexp.MustCompile(`(, or )auto\b`)
	codeWord = regexp.MustCompile(`(^|\s)(weft (?:seal|setup|sim --replay)|[a-z]+(?:[._][a-z]+)+)([ ,;.:)]|$)`)
)

// structs are the types of one package that have fields with settings.
type structs map[string]*ast.StructType

func structsOf(t *tree, dir string) structs {
	found := structs{}
	for _, f := range t.files {
		if f.dir != dir || f.test {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if s, ok := spec.Type.(*ast.StructType); ok {
					found[spec.Name.Name] = s
				}
			}
			return true
		})
	}
	return found
}

// setting is a field that a settings file has.
type setting struct {
	goName, key, group, text string
	def                      string
	of                       string // the type of its fields, if it has some
	enum                     string // its words, with commas
}

// settings returns the fields of a type that have a key in files. A comment of several fields is that of the first.
func (s structs) settings(name string) (list []setting) {
	for _, field := range s[name].Fields.List {
		if field.Tag == nil {
			continue
		}
		raw, _ := strconv.Unquote(field.Tag.Value)
		tag := reflect.StructTag(raw)
		key, _, _ := strings.Cut(tag.Get("yaml"), ",")
		if key == "" || key == "-" {
			continue
		}
		text := strings.Join(strings.Fields(field.Doc.Text()), " ")
		list = append(list, setting{
			goName: field.Names[0].Name, key: key, group: strings.TrimSuffix(tag.Get("group"), ":"), text: text,
			def: tag.Get("default"), of: s.inner(field.Type), enum: tag.Get("enum"),
		})
	}
	return list
}

// inner is the type of the package that a field is, points to or has several of; "": none with fields of its own.
func (s structs) inner(of ast.Expr) string {
	switch of := of.(type) {
	case *ast.StarExpr:
		return s.inner(of.X)
	case *ast.ArrayType:
		return s.inner(of.Elt)
	case *ast.MapType:
		return s.inner(of.Value)
	case *ast.Ident:
		if s[of.Name] != nil && len(s.settings(of.Name)) > 0 {
			return of.Name
		}
	}
	return ""
}

// write writes the settings of a type as a list, by groups. Settings that have one comment together stand in one item.
// Those of its fields follow in sections of their own, or below the item where sections is false.
//
// Each has an anchor of its place and key, such as model.batching.mode.
func (s structs) write(page *strings.Builder, name, place, indent string, sections bool) {
	list := s.settings(name)
	keys := map[string]string{}
	var groups []string
	for _, one := range list {
		keys[one.goName] = one.key
		if !slices.Contains(groups, one.group) {
			groups = append(groups, one.group)
		}
	}
	for _, group := range groups {
		if group != "" {
			fmt.Fprintf(page, "\n### %s\n\n", group)
		}
		for i, one := range list {
			if one.group != group || one.text == "" {
				continue
			}
			shown := "`" + one.key + "`"
			if one.of != "" && sections {
				shown = "[" + shown + "](#" + one.key + ")"
			}
			fmt.Fprintf(page, "%s- <a id=%q></a>%s", indent, place+one.key, shown)
			for _, more := range list[i+1:] {
				if more.text != "" {
					break
				}
				fmt.Fprintf(page, ", `%s`", more.key)
			}
			if values := valuesOf(one); values != "" {
				fmt.Fprintf(page, " (%s)", values)
			}
			fmt.Fprintf(page, ": %s\n", forReaders(one, keys))
			if one.of != "" && !sections {
				s.write(page, one.of, place+one.key+".", indent+"  ", false)
			}
		}
	}
	for _, one := range list {
		if one.of != "" && sections {
			fmt.Fprintf(page, "\n### `%s`\n\n", one.key)
			s.write(page, one.of, place+one.key+".", "", false)
		}
	}
}

// valuesOf is the values that a setting may have, as its comment says behind the name, and its default.
func valuesOf(one setting) string {
	var values []string
	if strings.HasPrefix(one.text, one.goName) {
		value := defaultValue.ReplaceAllString(subject.FindStringSubmatch(one.text)[1], "default `$1`")
		words, def, _ := strings.Cut(value, "default ")
		if one.enum != "" {
			for word := range strings.SplitSeq(one.enum, ",") {
				words = regexp.MustCompile(`\b`+word+`\b`).ReplaceAllString(words, "`"+word+"`")
			}
		}
		if words = autoWord.ReplaceAllString(words, "$1`auto`"); def != "" {
			words += "default " + def
		}
		values = append(values, words)
	}
	if one.def != "" {
		values = append(values, "default `"+one.def+"`")
	}
	return strings.Join(slices.DeleteFunc(values, func(value string) bool { return value == "" }), "; ")
}

// forReaders is a comment without names of Go: it does not begin with those of the fields, and calls others by their
// keys. Other pages become links.
func forReaders(one setting, keys map[string]string) string {
	text := one.text
	if strings.HasPrefix(text, one.goName) {
		text = strings.TrimPrefix(text, subject.FindString(text))
		text = strings.ToUpper(text[:1]) + text[1:]
	}
	text = otherPage.ReplaceAllString(text, "([$2](../$1))")
	text = codeWord.ReplaceAllString(text, "$1`$2`$3")
	text = withWord.ReplaceAllString(text, "$1`$2`")
	return fieldWord.ReplaceAllStringFunc(text, func(word string) string {
		if key := keys[word]; key != "" && (word != "HTTP" && word != "ONNX") {
			return "`" + key + "`"
		}
		return word
	})
}

// settingsText is the page.
func settingsText(t *tree) string {
	var page strings.Builder
	page.WriteString(`# Settings

Every setting of the [server](#the-server-flags-of-weft-serve-keys-of---config), a [model](#a-model-modelyaml)
([example](configuration.md#modelyaml)) and a [pipeline](#a-pipeline-pipelineyaml). Parentheses hold values and default;
without a default it is off, empty or 0. [When a change applies](configuration.md#reload). Set a list by a flag as in
` + "`--devices cpu,cuda`, in a [file](configuration.md#server-settings) as in `devices: [cpu, cuda]`" + `.

## The server: flags of ` + "`weft serve`, keys of `--config`" + `
`)
	structsOf(t, "internal/config").write(&page, "Server", "", "", true)
	models := structsOf(t, "runtime/modelrepo")
	page.WriteString("\n## A model: model.yaml\n\n")
	models.write(&page, "Manifest", "model.", "", true)
	page.WriteString("\n## A pipeline: pipeline.yaml\n\n")
	models.write(&page, "Pipeline", "pipeline.", "", false)
	return page.String()
}

// settingsWritten wants the page to be what the code says.
func settingsWritten(root fs.FS, t *tree) []string {
	have, err := fs.ReadFile(root, settingsPage)
	if err != nil || string(have) != settingsText(t) {
		return []string{settingsPage + " is not what the comments say: run make generate, and commit the result"}
	}
	return nil
}

func TestSettingsPage(t *testing.T) {
	if *update {
		holds(t, func(repo *tree) []string {
			name := filepath.Join("..", "..", filepath.FromSlash(settingsPage))
			if err := os.WriteFile(name, []byte(settingsText(repo)), 0o666); err != nil {
				return []string{err.Error()}
			}
			return nil
		})
	}
	holds(t, func(repo *tree) []string { return settingsWritten(root, repo) })
	holds(t, func(repo *tree) []string {
		if len(settingsWritten(fstest.MapFS{settingsPage: {Data: []byte("# Settings\n")}}, repo)) != 1 {
			return []string{"a page without settings is not complained about"}
		}
		return nil
	})
}
