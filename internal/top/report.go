package top

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// schema is the version of what `weft top --once --json` prints. Fields may be added to it. It is raised when a field
// is renamed or removed, or changes its meaning.
const schema = 1

// report writes the latest numbers as JSON, by their names in weft.v1.Activity. Totals become models; what only says
// how the update was sent is left out, and so are batches and requests.
func (h *history) report(out io.Writer) error {
	a := &weftv1.Activity{
		Run: h.GetRun(), Began: h.GetBegan(), NowMs: h.GetNowMs(), WindowMs: h.GetWindowMs(), Devices: h.GetDevices(),
		Totals: h.GetTotals(), LateOrLostLastMinute: h.GetLateOrLostLastMinute(),
	}
	for _, v := range h.rows("", order{key: '1'}) {
		a.Versions = append(a.Versions, v.VersionActivity)
	}
	data, err := protojson.MarshalOptions{UseProtoNames: true, EmitDefaultValues: true}.Marshal(a)
	if err != nil {
		return err
	}
	fields := map[string]any{}
	if err := json.Unmarshal(data, &fields); err != nil {
		return err
	}
	// The message passes through a map, since its JSON has more fields than a report, and fewer.
	fields["schema"], fields["sentence"], fields["models"] = schema, h.sentence(), fields["totals"]
	for _, name := range []string{"totals", "from_ms", "running", "batches_left_out", "requests_left_out"} {
		delete(fields, name)
	}
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(rounded(fields))
}

// rounded returns JSON whose numbers have four decimals at most: more would be noise. Maps and lists are changed in
// place.
func rounded(value any) any {
	switch v := value.(type) {
	case float64:
		return math.Round(v*1e4) / 1e4
	case map[string]any:
		for name, field := range v {
			v[name] = rounded(field)
		}
	case []any:
		for i, field := range v {
			v[i] = rounded(field)
		}
	}
	return value
}

// onceWidth is the width of a table in a text, in columns: all columns of the table fit, and mail and tickets show it
// without a break.
const onceWidth = 96

// unsorted has the table show no keys.
var unsorted = order{key: -1}

// text is the table as plain text, largest share first, with the sentence above it.
func (h *history) text() string {
	rows := h.rows("", order{key: '2'})
	g := newGrid(onceWidth, len(rows)+1)
	h.drawTable(g, 0, g.height, rows, unsorted, nil)
	var b strings.Builder
	for _, line := range wrapped(h.sentence(), onceWidth, 0) {
		fmt.Fprintln(&b, line)
	}
	fmt.Fprintf(&b, "\n%s\n", g)
	for _, d := range h.GetDevices() {
		fmt.Fprintf(&b, "%s: %s busy", d.GetName(), percent(d.GetBusyShare()))
		if d.GetLost() != "" {
			fmt.Fprintf(&b, "; lost: %s", d.GetLost())
		}
		b.WriteByte('\n')
	}
	return b.String()
}
