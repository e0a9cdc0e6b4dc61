package top

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// schema is the version of [Report]. Fields may come; those that are there keep their names and meanings, or it counts
// on.
const schema = 1

// Report is what `weft top --once --json` prints. Times end in _ms or _seconds; shares are parts of 1.
type Report struct {
	Schema int       `json:"schema"`
	Run    string    `json:"run"`
	Began  time.Time `json:"began"`
	// NowMS is the age of the run, WindowMS the time over which rates, shares and quantiles are.
	NowMS    number `json:"now_ms"`
	WindowMS number `json:"window_ms"`
	// Sentence says who uses the devices most, and whether anyone is late and because of what.
	Sentence string `json:"sentence"`
	// LateOrLost are all requests of the last minute that were late or lost; those of the versions are as many or, if the
	// server does not remember all, fewer.
	LateOrLost uint32           `json:"late_or_lost_last_minute"`
	Devices    []Device         `json:"devices"`
	Versions   []Version        `json:"versions"`
	Models     map[string]Model `json:"models"`
}

// Device is a device of the report.
type Device struct {
	Name        string `json:"name"`
	Lanes       uint32 `json:"lanes"`
	BusySeconds number `json:"busy_seconds"`
	BusyShare   number `json:"busy_share"`
	LagMS       number `json:"lag_ms"`
	LagBoundMS  number `json:"lag_bound_ms"`
	WorkMS      number `json:"work_ms"`
	// Lost says why it is not used; "" while it works.
	Lost string `json:"lost"`
}

// Version is a version on a device.
type Version struct {
	Model             string `json:"model"`
	Version           int32  `json:"version"`
	Device            string `json:"device"`
	Slot              string `json:"slot"`
	Weight            number `json:"weight"`
	Share             number `json:"share"`
	BackgroundShare   number `json:"background_share"`
	EntitledShare     number `json:"entitled_share"`
	RequestsPerSecond number `json:"requests_per_second"`
	BatchesPerSecond  number `json:"batches_per_second"`
	RowsPerBatch      number `json:"rows_per_batch"`
	P50MS             number `json:"p50_ms"`
	P99MS             number `json:"p99_ms"`
	TargetMS          number `json:"target_ms"`
	LimitMS           number `json:"limit_ms"`
	Waiting           uint32 `json:"waiting"`
	LastMinute        Counts `json:"last_minute"`
	Totals            Totals `json:"totals"`
}

// Counts are requests of the last minute that were late, and lost: not answered.
type Counts struct {
	Late number `json:"late"`
	Lost number `json:"lost"`
}

// Totals count since the run began.
type Totals struct {
	Batches     number            `json:"batches"`
	Rows        number            `json:"rows"`
	PaddedRows  number            `json:"padded_rows"`
	BusySeconds number            `json:"busy_seconds"`
	Answered    number            `json:"answered"`
	Late        number            `json:"late"`
	Lost        map[string]number `json:"lost"`
}

// Model counts what became of the requests for a model since the run began; those for "" named none that there is.
type Model struct {
	Offered   number `json:"offered"`
	Answered  number `json:"answered"`
	Refused   number `json:"refused"`
	Expired   number `json:"expired"`
	Cancelled number `json:"cancelled"`
	Failed    number `json:"failed"`
	InFlight  number `json:"in_flight"`
}

// number is one in JSON, with four decimals at most. What JSON does not have is 0.
type number float64

// MarshalJSON implements json.Marshaler.
func (n number) MarshalJSON() ([]byte, error) {
	x := math.Round(float64(n)*1e4) / 1e4
	if math.IsNaN(x) || math.IsInf(x, 0) {
		x = 0
	}
	return json.Marshal(x)
}

func (h *history) report() *Report {
	r := &Report{
		Schema: schema, Run: h.run, Began: h.began.UTC(), NowMS: number(h.now), WindowMS: number(h.window),
		Sentence: h.sentence(), LateOrLost: h.wrongs, Devices: []Device{}, Versions: []Version{}, Models: map[string]Model{},
	}
	for _, d := range h.devices {
		r.Devices = append(r.Devices, Device{
			d.GetName(), d.GetLanes(), number(d.GetBusySeconds()), number(d.GetBusyShare()), number(d.GetLagMs()),
			number(d.GetLagBoundMs()), number(d.GetWorkMs()), d.GetLost(),
		})
	}
	for _, v := range h.rows("", order{key: '1'}) {
		last := h.lastMinute(v)
		r.Versions = append(r.Versions, Version{
			Model: v.GetModel(), Version: v.GetVersion(), Device: v.GetDevice(), Slot: v.GetSlot(),
			Weight: number(v.GetWeight()), Share: number(v.GetShare()), BackgroundShare: number(v.GetBackgroundShare()),
			EntitledShare: number(v.GetEntitledShare()), RequestsPerSecond: number(v.GetRequestsPerSecond()),
			BatchesPerSecond: number(v.GetBatchesPerSecond()), RowsPerBatch: number(v.GetRowsPerBatch()),
			P50MS: number(v.GetP50Ms()), P99MS: number(v.GetP99Ms()), TargetMS: number(v.GetTargetMs()),
			LimitMS: number(v.GetLimitMs()), Waiting: v.GetWaiting(),
			LastMinute: Counts{number(last.late), number(last.lost)}, Totals: totalsOf(v.GetTotals()),
		})
	}
	for name, t := range h.models {
		r.Models[name] = Model{
			number(t.GetOffered()), number(t.GetAnswered()), number(t.GetRefused()), number(t.GetExpired()),
			number(t.GetCancelled()), number(t.GetFailed()), number(t.GetInFlight()),
		}
	}
	return r
}

func totalsOf(t *weftv1.VersionTotals) Totals {
	lost := map[string]number{}
	for reason, n := range t.GetLost() {
		lost[reason] = number(n)
	}
	return Totals{
		number(t.GetBatches()), number(t.GetRows()), number(t.GetPaddedRows()), number(t.GetBusySeconds()),
		number(t.GetAnswered()), number(t.GetLate()), lost,
	}
}

func (r *Report) json(out io.Writer) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

// onceWidth is that of a table in a text.
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
	for _, d := range h.devices {
		fmt.Fprintf(&b, "%s: %s busy", d.GetName(), percent(d.GetBusyShare()))
		if d.GetLost() != "" {
			fmt.Fprintf(&b, "; lost: %s", d.GetLost())
		}
		b.WriteByte('\n')
	}
	return b.String()
}
