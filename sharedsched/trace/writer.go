// Package trace writes the events of a scheduler as lines of JSON, and lets another one decide them all again.
package trace

import (
	"encoding/json"
	"io"

	"github.com/weftserve/weft/sharedsched"
)

// Writer writes a trace: its configuration, then the events, then, if need be, that it was cut. Each line is one call
// of the io.Writer below, whose errors are for its owner to find.
type Writer struct{ lines *json.Encoder }

// NewWriter begins a trace with the configuration.
func NewWriter(to io.Writer, cfg *sharedsched.Config) Writer {
	w := Writer{json.NewEncoder(to)}
	w.write(&line{Op: opConfig, Config: cfg})
	return w
}

// Event writes an event that a Core was given and its result; of out's actions those from first on.
func (w Writer) Event(now sharedsched.Time, ev *sharedsched.Event, out *sharedsched.Answer, first int, err error) {
	l := newLine(now, ev, out, first, err)
	w.write(&l)
}

// Cut writes the last line of a trace that ends before its scheduler does.
func (w Writer) Cut(now sharedsched.Time) { w.write(&line{Op: opCut, At: now}) }

// write writes a line.
func (w Writer) write(l *line) {
	_ = w.lines.Encode(l) //nolint:errchkjson // no weight or factor is infinite or not a number: they are validated
}
