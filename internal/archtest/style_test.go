package archtest

import (
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

// The most words of a sentence and of a table's cell.
const sentenceWords, cellWords = 45, 45

// styleRules are turns of phrase that make readers of a document stop, and what to write instead.
var styleRules = []struct {
	phrase  *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`(?i)\b(of which|of whom|(of|with|by|in) whose|to whom|whom)\b`), "a sentence of its own"},
	{regexp.MustCompile(`(?i)\b(those (that|who)|that which|he who|whoever|such a one|who (proves|asks|reads|has) )`), "the noun"},
	{regexp.MustCompile(`(^|[.:] )(Of (each|all|an?|the|these|them|what|who)\b|Who |What (he|is no) )`), "the actor first"},
	{regexp.MustCompile(`\b([Hh]is|[Hh]e|[Ss]omebody|[Nn]obody)\b`), "the caller, the operator"},
	{
		regexp.MustCompile(`(?i)\b(seldom|likewise|anew|heeds?|dearer|lest|in vain|for want of|all the same|but for)\b`),
		"rarely, also, again, follows, more expensive, so that, without success, for lack of, anyway, except",
	},
	{regexp.MustCompile(`(?i)\bmade-up\b`), "synthetic, generated"},
	{
		regexp.MustCompile(`(?i)\b(given up|passed over|let in|beyond (its|their) share)\b`),
		"dropped, skipped, admitted, over its fair share",
	},
	{regexp.MustCompile(`(?i)\bsome \d`), "about"},
	{regexp.MustCompile(`(?i)\b(would be|is|are) worth it to\b`), "what happens"},
}

var (
	codeMark = regexp.MustCompile("`[^`]*`")
	linkMark = regexp.MustCompile(`\]\([^)]*\)`)
	endMark  = regexp.MustCompile(`[.!?:;](\s|$)`)
)

// style wants the documents that people read to say things straight: the rules above, and no long sentence or cell.
// Reports of programs (docs/bench, docs/sim) are left out.
func style(root fs.FS) (complaints []string) {
	for _, name := range pageNames(root) {
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return []string{err.Error()}
		}
		fence, begin, paragraph := false, 0, ""
		end := func() {
			for _, sentence := range endMark.Split(paragraph, -1) {
				if n := len(strings.Fields(sentence)); n > sentenceWords {
					complaints = append(complaints, fmt.Sprintf("%s:%d: a sentence of %d words: divide it", name, begin, n))
				}
			}
			paragraph = ""
		}
		for i, line := range strings.Split(string(text), "\n") {
			trimmed := strings.TrimSpace(line)
			if strings.HasPrefix(trimmed, "```") {
				fence = !fence
				end()
				continue
			}
			if fence {
				continue
			}
			prose := linkMark.ReplaceAllString(codeMark.ReplaceAllString(trimmed, "x"), "]")
			for _, rule := range styleRules {
				if found := rule.phrase.FindString(prose); found != "" {
					complaints = append(complaints, fmt.Sprintf("%s:%d: %q: write %s", name, i+1, found, rule.instead))
				}
			}
			switch {
			case strings.HasPrefix(trimmed, "|"):
				end()
				for cell := range strings.SplitSeq(prose, "|") {
					if n := len(strings.Fields(cell)); n > cellWords {
						complaints = append(complaints, fmt.Sprintf("%s:%d: a cell of %d words: move it below the table", name, i+1, n))
					}
				}
			case trimmed == "" || listItem.MatchString(line) || heading.MatchString(line):
				end()
				fallthrough
			default:
				if paragraph == "" {
					begin = i + 1
				}
				paragraph += " " + prose
			}
		}
		end()
	}
	return complaints
}

func TestStyle(t *testing.T) {
	for _, complaint := range style(root) {
		t.Error(complaint)
	}
}

// TestStyleComplains has a sentence for each rule, most of them from earlier documents.
func TestStyleComplains(t *testing.T) {
	for _, sentence := range []string{
		"A caller is the first identity one of whose `callers` fits what the caller proves.",
		"A proof is refused, unless one takes `anonymous`: who proves something may do as much as who proves nothing.",
		"Of a flow beyond its share a task is refused at once.",
		"The flood of one costs no other his answers.",
		"A model of which one row costs more than the bound runs its rows one by one.",
		"Who asks for more than he gets so is *beyond his share*.",
		"Keys are fetched anew every five minutes.",
		"`priority` decides who is given up.",
		"Which is less than the others, and in vain.",
		"Made-up rows give the same answers.",
		"A process takes some 30 MB.",
		"It is worth it to tell a call that it waited.",
		strings.Repeat("word ", sentenceWords+1),
		"| a | " + strings.Repeat("word ", cellWords+1) + "|",
	} {
		pages := fstest.MapFS{"README.md": {Data: []byte(sentence)}}
		if len(style(pages)) == 0 {
			t.Errorf("%q is not complained about", sentence)
		}
	}
	fine := fstest.MapFS{"README.md": {Data: []byte("If a flow is over its share, Weft refuses the task.\n\n```\nof which\n```\n")}}
	if found := style(fine); len(found) > 0 {
		t.Error(found)
	}
}
