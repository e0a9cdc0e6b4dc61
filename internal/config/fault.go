package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fault is one thing wrong in a settings file, or in settings that came from elsewhere.
type Fault struct {
	File   string // as the caller named it; "" when the settings did not come from a file
	Line   int    // 1-based; 0 when no line is to blame (the key is not in the file)
	Column int    // 1-based, in characters; 0 with Line
	Text   string // the line itself, without its line end
	Key    string // dotted path of the key, such as "batching.max_queue"; "" for the file as a whole
	Absent bool   // the key is not in the file: Line is that of the innermost section around it
	// Message states the fault and the expectation: "WHAT IS WRONG; WHAT IS EXPECTED" or "expected THIS, found THAT".
	// The file's own text is before the semicolon or after ", found", which is how Public leaves it out.
	Message string
	// Open: the file's own text is after ", found" only, so that Public keeps what stands before the semicolon.
	Open bool
	// Suggestion is the nearest thing that would have been right; "" when nothing is near.
	Suggestion string
}

// String returns "FILE:LINE:COLUMN: KEY: MESSAGE; did you mean SUGGESTION?", and below it the line with a mark under
// the column. Editors and terminals open such a place.
func (f Fault) String() string {
	var b strings.Builder
	if f.File != "" {
		b.WriteString(f.File)
		if f.Line > 0 {
			fmt.Fprintf(&b, ":%d:%d", f.Line, f.Column)
		}
		b.WriteString(": ")
	}
	if f.Key != "" {
		b.WriteString(f.Key + ": ")
	}
	b.WriteString(f.Message)
	if f.Suggestion != "" {
		fmt.Fprintf(&b, "; did you mean %q?", f.Suggestion)
	}
	if f.Line > 0 {
		b.WriteString(snippet(f.Line, f.Column, f.Text))
	}
	return b.String()
}

// Public returns the fault as String does, but without the file's own text. Remote callers may see that, and may not
// read the file.
func (f Fault) Public() string {
	f.Text, f.Message = "", f.expectation()
	text := f.String()
	if f.Line > 0 {
		text = strings.TrimSuffix(text, snippet(f.Line, f.Column, ""))
	}
	return text
}

// expectation returns the part of a message without the file's own text.
func (f Fault) expectation() string {
	message := f.Message
	if _, expected, ok := strings.Cut(message, "; "); ok && !f.Open {
		message = expected
	}
	message, _, _ = strings.Cut(message, ", found ")
	return message
}

// maxShown is how many characters of a source line an error message repeats at most.
const maxShown = 160

// snippet returns a source line with its number, and a mark under the column if that is in the part shown.
func snippet(line, column int, text string) string {
	shown, more := []rune(text), ""
	if len(shown) > maxShown {
		shown, more = shown[:maxShown], "..."
	}
	out := fmt.Sprintf("\n%5d | %s%s", line, string(shown), more)
	if column < 1 || column > len(shown)+1 {
		return out
	}
	// A tab stays a tab, so that the mark stands under its column however wide the reader's tabs are.
	indent := strings.Map(func(r rune) rune {
		if r == '\t' {
			return r
		}
		return ' '
	}, string(shown[:column-1]))
	return out + "\n      | " + indent + "^"
}

// Faults is every fault found in one reading, as one error. The zero value means there is none.
type Faults []Fault

// Error returns one fault after another, each on lines of its own.
func (fs Faults) Error() string {
	return fs.join(Fault.String, "\n")
}

// Public returns one fault after another in the form that remote callers may see.
func (fs Faults) Public() string {
	return fs.join(Fault.Public, "; ")
}

// join puts the faults together, each in a form.
func (fs Faults) join(form func(Fault) string, between string) string {
	var texts []string
	for _, f := range fs {
		texts = append(texts, form(f))
	}
	return strings.Join(texts, between)
}

// Err returns fs as an error, and nil if there is no fault: an empty Faults in an error would not be nil.
func (fs Faults) Err() error {
	if len(fs) == 0 {
		return nil
	}
	return fs
}

// Addf adds a fault of a key. Decode fills in its place in the file, if it has one.
func (fs *Faults) Addf(key, format string, args ...any) {
	wrong, _, _ := strings.Cut(format, "; ") // text of the program's, unless a value is put into it
	*fs = append(*fs, Fault{Key: key, Message: fmt.Sprintf(format, args...), Open: !strings.Contains(wrong, "%")})
}

// Between adds a fault unless low <= value <= high. %v of T must read well in a message.
func Between[T cmp.Ordered](fs *Faults, key string, value, low, high T) {
	// Written so that a NaN is outside.
	if !(value >= low && value <= high) {
		fs.Addf(key, "%v is out of range; expected %v to %v", value, low, high)
	}
}

// Sort orders the faults as they stand in the file; those without a line come last, in the order found.
func (fs Faults) Sort() {
	slices.SortStableFunc(fs, func(a, b Fault) int {
		if (a.Line == 0) != (b.Line == 0) {
			return cmp.Compare(b.Line, a.Line)
		}
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}
