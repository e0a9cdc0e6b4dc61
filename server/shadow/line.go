package shadow

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
)

// line is the log's entry for one request. What reads the log knows the fields by these names.
type line struct {
	Time      time.Time    `json:"time"`
	Model     string       `json:"model"`
	Primary   int64        `json:"primary_version"`
	Shadow    int64        `json:"shadow_version"`
	Slot      string       `json:"slot,omitempty"`
	RequestID string       `json:"request_id,omitempty"`
	Episode   string       `json:"episode_id,omitempty"`
	Outcome   Outcome      `json:"outcome"`
	Error     string       `json:"error,omitempty"`
	Agreed    bool         `json:"agreed"`
	PrimaryMS float64      `json:"primary_compute_ms,omitempty"`
	ShadowMS  float64      `json:"shadow_compute_ms,omitempty"`
	Outputs   []outputLine `json:"outputs,omitempty"`
}

// outputLine compares one output of the two answers.
type outputLine struct {
	Name        string  `json:"name"`
	Mismatch    string  `json:"mismatch,omitempty"`
	MaxAbsolute number  `json:"max_absolute"`
	MaxRelative number  `json:"max_relative"`
	Cosine      *number `json:"cosine,omitempty"`
	Rows        int64   `json:"rows"`
	SameArgmax  int64   `json:"same_argmax"`
	Agreed      bool    `json:"agreed"`
}

// number is a float64 that JSON can carry: infinity becomes the string "Infinity", as in protocol buffers' JSON.
type number float64

// MarshalJSON implements json.Marshaler.
func (n number) MarshalJSON() ([]byte, error) {
	if math.IsInf(float64(n), 1) {
		return []byte(`"Infinity"`), nil
	}
	return strconv.AppendFloat(nil, float64(n), 'g', -1, 64), nil
}

// lineOf writes the line of a job, with its newline.
func lineOf(j *job, v *verdict) []byte {
	l := line{
		Time: time.Now().UTC(), Model: j.pair.model, Primary: j.pair.primary, Shadow: j.pair.shadow,
		Slot: j.offer.Slot, RequestID: j.offer.RequestID, Episode: j.offer.Episode,
		Outcome: v.Outcome, Error: v.cause, Agreed: v.Agreed,
		PrimaryMS: milliseconds(v.primary), ShadowMS: milliseconds(v.shadow),
	}
	for _, d := range v.differences {
		o := outputLine{
			Name: d.Name, Mismatch: d.Mismatch, MaxAbsolute: number(d.MaxAbsolute), MaxRelative: number(d.MaxRelative),
			Rows: d.Rows, SameArgmax: d.SameArgmax, Agreed: d.Agreed,
		}
		if d.HasCosine {
			o.Cosine = new(number(d.Cosine))
		}
		l.Outputs = append(l.Outputs, o)
	}
	text, err := json.Marshal(&l)
	if err != nil { // such as a clock beyond the year 9999
		text = fmt.Appendf(nil, "{\"error\": %q}", err)
	}
	return append(text, '\n')
}

func milliseconds(d time.Duration) float64 { return float64(d) / 1e6 }
