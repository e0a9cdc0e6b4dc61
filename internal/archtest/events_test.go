package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// eventsPage lists the events of the log.
const eventsPage = "docs/reference/events.md"

// maxMessage bounds a message, in characters: it is a phrase, and all further facts are attributes.
const maxMessage = 60

var (
	loggerName = regexp.MustCompile(`^(?i:s?log|logger)$`)                                 // of a variable, a field, or the package
	eventRow   = regexp.MustCompile("^\\| (\\w+) \\| `(\\w+)` \\| ([a-z, ]+) \\| .* \\|$") // subject, event, level, when
	eventName  = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	// logMethods are the methods of a logger, with the place of the message among their arguments, and its level as far
	// as that is known.
	logMethods = map[string]struct {
		message int
		level   string
	}{
		"Debug": {0, "debug"}, "Info": {0, "info"}, "Warn": {0, "warn"}, "Error": {0, "error"},
		"DebugContext": {1, "debug"}, "InfoContext": {1, "info"}, "WarnContext": {1, "warn"},
		"ErrorContext": {1, "error"}, "Log": {2, ""}, "LogAttrs": {2, ""},
	}
)

// logged is a place where a record is made.
type logged struct {
	at      string
	level   string // "" where it is chosen at run time
	message ast.Expr
	attrs   []ast.Expr
	in      ast.Decl
}

// logEvents wants each record to state its event: a short phrase as the message, and first of the attributes "event"
// with a name of its own, which the page lists with its level. Alerts and tests rely on these names.
func logEvents(root fs.FS, t *tree) []string {
	page, err := fs.ReadFile(root, eventsPage)
	if err != nil {
		return []string{err.Error()}
	}
	listed, complaints := eventRows(string(page))
	messages := map[string]string{}
	for _, f := range t.files {
		if f.test || f.generated {
			continue
		}
		complaints = append(complaints, misnamedLoggers(f)...)
		for _, r := range records(f) {
			complain := func(format string, args ...any) {
				complaints = append(complaints, r.at+": "+fmt.Sprintf(format, args...))
			}
			message, constant := text(r.message)
			if !constant || len(message) > maxMessage || strings.ContainsAny(message, ";:.") {
				complain("the message is no constant phrase of at most %d characters", maxMessage)
			}
			name := eventOf(r)
			if !eventName.MatchString(name) {
				complain(`the first attribute is not "event" with a constant name in snake_case`)
				continue
			}
			if other, known := messages[name]; known && other != message {
				complain("event %s is %q elsewhere, and %q here", name, other, message)
			}
			messages[name] = message
			if levels, is := listed[name]; !is {
				complain("%s has no row for event %s", eventsPage, name)
			} else if !strings.Contains(levels, r.level) {
				complain("%s has event %s as %q, and here its level is %s", eventsPage, name, levels, r.level)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		if _, exists := messages[name]; !exists {
			complaints = append(complaints, fmt.Sprintf("%s: event %s does not exist", eventsPage, name))
		}
	}
	return complaints
}

// eventRows returns the levels of each event that the page lists: one row an event, in order below each subject.
func eventRows(page string) (levels map[string]string, complaints []string) {
	levels = map[string]string{}
	of, last := "", ""
	for i, line := range strings.Split(page, "\n") {
		row := eventRow.FindStringSubmatch(line)
		if row == nil {
			continue
		}
		subject, name := row[1], row[2]
		if _, twice := levels[name]; twice || subject == of && name <= last {
			complaints = append(complaints, fmt.Sprintf("%s:%d: event %s is out of order, or twice", eventsPage, i+1, name))
		}
		of, last, levels[name] = subject, name, row[3]
	}
	return levels, complaints
}

// misnamedLoggers wants loggers to be called so, because records are found by the names of the loggers.
func misnamedLoggers(f sourceFile) (complaints []string) {
	ast.Inspect(f.ast, func(n ast.Node) bool {
		field, ok := n.(*ast.Field)
		if !ok {
			return true
		}
		pointer, ok := field.Type.(*ast.StarExpr)
		if !ok || nameOf(pointer.X) != "Logger" {
			return true
		}
		for _, name := range field.Names {
			if !loggerName.MatchString(name.Name) {
				complaints = append(complaints, f.at(name.Pos())+": a logger is called log or logger")
			}
		}
		return true
	})
	return complaints
}

// records finds the records that a file logs: by a logger's methods, and as a value of a type Log, which has level,
// message and attributes and is logged by others.
func records(f sourceFile) (found []logged) {
	for _, decl := range f.ast.Decls {
		ast.Inspect(decl, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				method, ok := n.Fun.(*ast.SelectorExpr)
				if !ok {
					break
				}
				m, ok := logMethods[method.Sel.Name]
				if !ok || len(n.Args) <= m.message || !loggerName.MatchString(nameOf(method.X)) {
					break
				}
				message := n.Args[m.message]
				if of, ok := message.(*ast.SelectorExpr); ok && of.Sel.Name == "Message" {
					break // a value that was found where it is made
				}
				found = append(found, logged{f.at(n.Pos()), m.level, message, n.Args[m.message+1:], decl})
			case *ast.CompositeLit:
				if nameOf(n.Type) == "Log" && len(n.Elts) == 3 {
					level := strings.ToLower(strings.TrimPrefix(nameOf(n.Elts[0]), "Level"))
					if _, constant := n.Elts[0].(*ast.SelectorExpr); !constant {
						level = ""
					}
					found = append(found, logged{f.at(n.Pos()), level, n.Elts[1], n.Elts[2:], decl})
				}
			}
			return true
		})
	}
	return found
}

// nameOf returns the last name of an expression; of a method's call that of its receiver.
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.CallExpr:
		if on, ok := e.Fun.(*ast.SelectorExpr); ok {
			return nameOf(on.X)
		}
	}
	return ""
}

func text(e ast.Expr) (text string, constant bool) {
	literal, ok := e.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(literal.Value)
	return text, err == nil
}

// eventOf returns the event of a record, "" if that is not the first attribute or no constant.
func eventOf(r logged) string {
	attrs := r.attrs
	for range 10 { // attributes within attributes
		if len(attrs) == 0 {
			return ""
		}
		switch first := attrs[0].(type) {
		case *ast.CallExpr: // such as append or slog.String
			attrs = first.Args
		case *ast.CompositeLit:
			attrs = first.Elts
		case *ast.Ident:
			attrs = definition(r.in, first.Name)
		default:
			if key, _ := text(first); key != "event" || len(attrs) < 2 {
				return ""
			}
			name, _ := text(attrs[1])
			return name
		}
	}
	return ""
}

// definition returns the expressions that define a variable, nil if there are none.
func definition(in ast.Decl, name string) (as []ast.Expr) {
	ast.Inspect(in, func(n ast.Node) bool {
		if a, ok := n.(*ast.AssignStmt); ok && a.Tok == token.DEFINE && len(a.Lhs) == len(a.Rhs) {
			for i, to := range a.Lhs {
				if nameOf(to) == name {
					as = a.Rhs[i : i+1]
				}
			}
		}
		return as == nil
	})
	return as
}

func TestLogEvents(t *testing.T) {
	holds(t, func(repo *tree) []string { return logEvents(root, repo) })
}

func TestLogEventsComplain(t *testing.T) {
	const row = "| devices | `gpu_lost` | warn | a GPU is lost (`device`) |\n"
	for name, c := range map[string]struct{ page, src, want string }{
		"a record":       {row, `log.Warn("GPU lost", "event", "gpu_lost", "device", 1)`, ""},
		"of a field":     {row, `m.cfg.Logger.WarnContext(ctx, "GPU lost", "event", "gpu_lost")`, ""},
		"a level":        {row, `log.Log(ctx, level, "GPU lost", "event", "gpu_lost")`, ""},
		"more to come":   {row, `log.Warn("GPU lost", append([]any{"event", "gpu_lost"}, more...)...)`, ""},
		"attributes":     {row, `l := []A{slog.String("event", "gpu_lost")}; slog.LogAttrs(ctx, at, "GPU lost", l...)`, ""},
		"twice the same": {row, `log.Warn("GPU lost", "event", "gpu_lost"); log.Warn("GPU lost", "event", "gpu_lost")`, ""},
		"a value":        {row, `tell(Log{slog.LevelWarn, "GPU lost", []any{"event", "gpu_lost"}})`, ""},
		"passed on":      {"", `log.Log(ctx, e.Level, e.Message, e.Attrs...)`, ""},
		"no log":         {"", `math.Log(1); t.Error("it failed")`, ""},
		"no event":       {"", `log.Warn("GPU lost", "device", 1)`, "a/a.go:3: the first attribute"},
		"nothing at all": {"", `slog.Default().Warn("GPU lost")`, "a/a.go:3: the first attribute"},
		"a late event":   {row, `log.Warn("GPU lost", "device", 1, "event", "gpu_lost")`, "the first attribute"},
		"a variable":     {row, `log.Warn("GPU lost", "event", name)`, "the first attribute"},
		"another case":   {row, `log.With("a", 1).Warn("GPU lost", "event", "GPULost")`, "the first attribute"},
		"a bad value":    {row, `tell(Log{slog.LevelWarn, "GPU lost", []any{"device", 1}})`, "the first attribute"},
		"a sentence":     {row, `log.Warn("a GPU is lost; restart", "event", "gpu_lost")`, "no constant phrase"},
		"a text":         {row, `log.Warn("GPU lost "+why, "event", "gpu_lost")`, "no constant phrase"},
		"two meanings": {
			row, `log.Warn("GPU lost", "event", "gpu_lost"); log.Warn("GPU found", "event", "gpu_lost")`, `is "GPU lost"`,
		},
		"no row":            {"", `log.Warn("GPU lost", "event", "gpu_lost")`, "has no row for event gpu_lost"},
		"a row too many":    {row, ``, "event gpu_lost does not exist"},
		"rows out of order": {row + row, `log.Warn("GPU lost", "event", "gpu_lost")`, ":2: event gpu_lost is out of"},
		"an event twice": {
			row + "| others | `gpu_lost` | warn | lost |\n", `log.Warn("GPU lost", "event", "gpu_lost")`, ":2: event gpu_lost is out of",
		},
		"two events in a row": {
			"| devices | `gpu_back`<br>`gpu_lost` | warn | lost |\n", `log.Warn("GPU lost", "event", "gpu_lost")`, "has no row",
		},
		"events in disorder": {
			row + "| devices | `gpu_back` | info | back |\n",
			`log.Warn("GPU lost", "event", "gpu_lost"); log.Info("GPU back", "event", "gpu_back")`, ":2: event gpu_back is out of",
		},
		"another subject": {
			row + "| others | `a_lost` | warn | lost |\n",
			`log.Warn("GPU lost", "event", "gpu_lost"); log.Warn("a lost", "event", "a_lost")`, "",
		},
		"another level":      {row, `log.Error("GPU lost", "event", "gpu_lost")`, "here its level is error"},
		"a hidden logger":    {"", `_ = func(said *slog.Logger) { said.Warn("GPU lost") }`, "called log or logger"},
		"a value's level":    {row, `tell(Log{slog.LevelInfo, "GPU lost", []any{"event", "gpu_lost"}})`, "level is info"},
		"not the first time": {row, `l := names(); log.Warn("GPU lost", l...)`, "the first attribute"},
	} {
		src := []byte("package a\nfunc f() {\n" + c.src + "\n}\n")
		files := fstest.MapFS{"a/a.go": {Data: src}, "a/a_test.go": {Data: src}, eventsPage: {Data: []byte(c.page)}}
		tr, err := load(files)
		if err != nil {
			t.Fatal(err)
		}
		got := logEvents(files, tr)
		for c.want != "" && len(got) > 1 && strings.Contains(got[1], "does not exist") {
			got = got[:1] // an event that cannot be read exists nowhere
		}
		if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)) {
			t.Errorf("%s: complaints %q, want %q", name, got, c.want)
		}
	}
}
