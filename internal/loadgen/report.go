package loadgen

import (
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// schema is the version of the JSON form of a Report. Fields are added without a new one.
const schema = 1

// Report is what a run measured; docs/operations/benchmarking.md describes its fields.
type Report struct {
	Schema      int            `json:"schema"`
	Target      string         `json:"target"`
	Protocol    Protocol       `json:"protocol"`
	StartedAt   time.Time      `json:"started_at"`
	WarmupS     float64        `json:"warmup_s"`
	DurationS   float64        `json:"duration_s"`
	Interrupted bool           `json:"interrupted"`
	Connections int            `json:"connections"`
	OverStreams bool           `json:"stream,omitempty"`
	Streams     []StreamReport `json:"streams"`
	CPU         *CPUReport     `json:"cpu,omitempty"`
	Find        *FindReport    `json:"find,omitempty"`
}

// StreamReport is what was measured of one stream.
type StreamReport struct {
	Name       string  `json:"name"`
	Model      string  `json:"model"`
	Version    string  `json:"version"`
	Loop       string  `json:"loop"` // open or closed
	Callers    int     `json:"callers,omitempty"`
	Rate       float64 `json:"rate,omitempty"`
	Arrivals   string  `json:"arrivals,omitempty"`
	CV         float64 `json:"cv,omitempty"`
	Priority   string  `json:"priority"`
	DeadlineMs float64 `json:"deadline_ms"`
	PatienceMs float64 `json:"patience_ms,omitempty"`
	Retries    int     `json:"retries,omitempty"`

	// What was counted. Sent counts the requests that were due, and Codes how they ended.
	Sent        int64             `json:"sent"`
	Attempts    int64             `json:"attempts"` // that ended
	Codes       map[string]int64  `json:"codes"`
	FirstErrors map[string]string `json:"first_errors,omitempty"` // by code
	Unanswered  int64             `json:"unanswered"`
	InTime      float64           `json:"in_time"` // part of the ones that ended
	AnswersPS   float64           `json:"answers_per_s"`
	GoodputPS   float64           `json:"goodput_per_s"`
	RowsPS      float64           `json:"rows_per_s"`
	LatencyMs   Quantiles         `json:"latency_ms"`
	Server      ServerReport      `json:"server,omitzero"` // of weft.v1

	// What casts doubt on the figures, or explains them. Series has the parts of the run, and Thirds compares them.
	RefusedMs *Quantiles `json:"refused_ms,omitempty"` // of attempts that the server refused (ResourceExhausted)
	LagMs     *Quantiles `json:"lag_ms,omitempty"`     // of open loops
	Doubtful  string     `json:"doubtful,omitempty"`

	Thirds   []Third `json:"thirds,omitempty"`
	Unsteady string  `json:"unsteady,omitempty"`
	Series   []Point `json:"series"`
}

// Quantiles are the mean and percentiles of durations, in milliseconds.
type Quantiles struct {
	Mean  float64 `json:"mean"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P95   float64 `json:"p95"`
	P99   float64 `json:"p99"`
	P999  float64 `json:"p99_9"`
	P9999 float64 `json:"p99_99"`
	Max   float64 `json:"max"`
}

// ServerReport is what the answers say of their way through the server.
type ServerReport struct {
	QueueMs   Quantiles `json:"queue_ms"`
	ComputeMs Quantiles `json:"compute_ms"`
	DeviceUs  float64   `json:"device_us"`  // mean of a request
	BatchRows float64   `json:"batch_rows"` // mean of a request's execution
}

// CPUReport is processor time in microseconds per request that ended.
type CPUReport struct {
	Requests int64   `json:"requests"`
	Server   CPUTime `json:"server"`
	Children CPUTime `json:"children"`
	Client   CPUTime `json:"client"`
}

// CPUTime is processor time in microseconds.
type CPUTime struct {
	UserUs   float64 `json:"user_us"`
	SystemUs float64 `json:"system_us"`
}

func (c CPUTime) total() float64 { return c.UserUs + c.SystemUs }

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// quantiles returns those of a histogram.
func (h histogram) quantiles() Quantiles {
	at := h.percentiles(50, 90, 95, 99, 99.9, 99.99)
	return Quantiles{
		Mean: milliseconds(time.Duration(h.Mean())), P50: at[0], P90: at[1], P95: at[2], P99: at[3], P999: at[4],
		P9999: at[5], Max: milliseconds(time.Duration(h.Max())),
	}
}

// percentiles returns the values at some percentiles, in milliseconds. They must ascend: all are found in one pass.
func (h histogram) percentiles(ascending ...float64) []float64 {
	var all []float64
	for _, v := range h.ValueAtPercentilesSlice(ascending) {
		all = append(all, milliseconds(time.Duration(v)))
	}
	return all
}

// report returns what was measured of the load in a run that counted for so long. It is called when all requests have
// ended. Counts and latencies are of requests by when they were due; rates are of answers by when they came.
func (l *load) report(counted time.Duration) StreamReport {
	t := l.tally
	t.mu.Lock()
	defer t.mu.Unlock()
	// The settings are repeated, so that a report can be read without the command that made it.
	s := StreamReport{
		Name: l.Name, Model: l.Model, Version: l.version, Loop: "open", Callers: l.Callers, Rate: l.Rate,
		Arrivals: string(l.Arrivals), CV: l.CV, Priority: string(l.Priority),
		DeadlineMs: milliseconds(time.Duration(l.Deadline)), PatienceMs: milliseconds(time.Duration(l.Patience)),
		Retries: l.Retries,
		Sent:    t.sent, Attempts: t.attempts, Unanswered: t.unanswered,
		Codes: map[string]int64{}, FirstErrors: map[string]string{},
		LatencyMs: t.latency.quantiles(),
		Server:    ServerReport{QueueMs: t.queue.quantiles(), ComputeMs: t.compute.quantiles()},
	}
	for code, n := range t.codes {
		s.Codes[code.String()] = n
	}
	for code, err := range t.first {
		s.FirstErrors[code.String()] = status.Convert(err).Message()
	}
	answered := t.codes[codes.OK]
	// Unanswered requests are reported on their own. They might have been in time, had the run waited longer.
	if ended := t.sent - t.unanswered; ended > 0 {
		s.InTime = float64(t.inTime) / float64(ended)
	}
	if seconds := counted.Seconds(); seconds > 0 {
		all := t.cameLocked(0, partCount)
		s.AnswersPS, s.GoodputPS = float64(all.answers)/seconds, float64(all.inTime)/seconds
		s.RowsPS = float64(all.rows) / seconds
	}
	// Means of the server's own figures are over answers, and each answer counts its execution: a batch of ten counts
	// ten times.
	if answered > 0 {
		s.Server.DeviceUs = float64(t.device.Microseconds()) / float64(answered)
		s.Server.BatchRows = float64(t.batchRows) / float64(answered)
	}
	switch {
	case l.closed():
		s.Loop, s.Arrivals = "closed", ""
	// A trace has neither a rate nor a distribution.
	case l.Trace != "":
		s.Arrivals = "trace"
	}
	if !l.closed() {
		lag := t.lag.quantiles()
		s.LagMs, s.Doubtful = &lag, doubt(lag, s.LatencyMs)
	}
	if t.refused.TotalCount() > 0 {
		refused := t.refused.quantiles()
		s.RefusedMs = &refused
	}
	// A run that was cut short has fewer parts, the last of them incomplete.
	whole := min(int(counted/t.slice), partCount)
	s.Series = t.seriesLocked(whole)
	s.Thirds = t.thirdsLocked(whole)
	s.Unsteady = unsteady(s.Thirds)
	return s
}
