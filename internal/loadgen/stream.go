package loadgen

import (
	"math"
	"strings"
	"time"

	"github.com/weftserve/weft/internal/config"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// Stream is requests of one kind, and how they come: the flags of one, or an element of a file of several.
type Stream struct {
	Name    string `kong:"-" yaml:"name"` // "": the model's
	Model   string `yaml:"model" help:"The model to ask." placeholder:"NAME"`
	Version int64  `yaml:"version" help:"Ask this version." placeholder:"N"`
	Label   string `yaml:"label" help:"Ask the version with this label." placeholder:"NAME"`

	// How the requests come: exactly one of Callers, Rate and Trace is set.
	Callers  int      `yaml:"callers" help:"Closed loop with this many callers (8 unless --rate, --trace or --find is set)." placeholder:"N"`
	Rate     float64  `yaml:"rate" help:"Open loop with this many requests a second." placeholder:"N"`
	Arrivals Arrivals `yaml:"arrivals" default:"poisson" enum:"poisson,gamma,constant" help:"Arrivals of an open loop: poisson, gamma (with --cv) or constant."`
	CV       float64  `yaml:"cv" help:"Coefficient of variation of gaps for gamma; above 1 means bursts." placeholder:"N"`
	Trace    string   `yaml:"trace" help:"Open loop that sends at the times in this file (seconds, one a line, ascending)." type:"path" placeholder:"FILE"`

	// What each request is, and what its caller does.
	Deadline config.Duration `yaml:"deadline" default:"1s" help:"Deadline of each attempt, counted for the first one from when the request is due; 0: none."`
	Patience config.Duration `yaml:"patience" help:"Stop waiting after this, without cancelling the call; 0: never." placeholder:"DURATION"`
	Retries  int             `yaml:"retries" help:"Retries of a request that was refused, unavailable or late, after pauses that double from about 10 ms." placeholder:"N"`
	Priority Priority        `yaml:"priority" default:"critical" enum:"critical,critical_plus,sheddable,sheddable_plus" help:"critical, critical_plus, sheddable or sheddable_plus."`
	Rows     int64           `yaml:"rows" default:"1" help:"Rows of each generated request."`
	OpenDims int64           `yaml:"open_dims" default:"1" help:"Size of open dimensions in generated requests."`
	Request  string          `yaml:"request" help:"Send the requests in this file (weft.v1.PredictRequest as JSON) in turn." type:"path" placeholder:"FILE"`
	Seed     uint64          `yaml:"seed" default:"1" help:"Seed of arrivals and generated values."`
}

// SetDefaults gives the stream the defaults of the flags.
func (s *Stream) SetDefaults() {
	*s = Stream{
		Arrivals: poisson, Deadline: config.Duration(time.Second), Priority: "critical", Rows: 1, OpenDims: 1, Seed: 1,
	}
}

// Arrivals is how the requests of an open loop come.
type Arrivals string

const (
	poisson  Arrivals = "poisson"
	gamma    Arrivals = "gamma"
	constant Arrivals = "constant"
)

// Priority is a priority of the API, in lower case.
type Priority string

// proto returns the priority of the API; the parsers let no other name through.
func (p Priority) proto() weftv1.Priority {
	return weftv1.Priority(weftv1.Priority_value["PRIORITY_"+strings.ToUpper(string(p))])
}

// closed reports whether callers wait for answers before they ask again.
func (s *Stream) closed() bool { return s.Callers > 0 }

// limit is how long after it was sent an answer still counts as in time: the deadline, or the patience if that is
// shorter. 0 counts all answers.
func (s *Stream) limit() time.Duration {
	if s.Patience > 0 && (s.Deadline == 0 || s.Patience < s.Deadline) {
		return time.Duration(s.Patience)
	}
	return time.Duration(s.Deadline)
}

// check returns the faults of the stream. key turns the name of a setting into what the user wrote: a flag, or a place
// in the file.
func (s *Stream) check(key func(string) string) config.Faults {
	var faults config.Faults
	add := func(name, format string, args ...any) { faults.Addf(key(name), format, args...) }
	if s.Model == "" {
		add("model", "not set; expected the name of the model to ask")
	}
	if s.Version < 0 {
		add("version", "expected a positive number, found %d", s.Version)
	}
	if s.Version > 0 && s.Label != "" {
		add("label", "%q beside version %d; expected one of the two", s.Label, s.Version)
	}
	ways := 0
	for _, given := range []bool{s.Callers != 0, s.Rate != 0, s.Trace != ""} {
		if given {
			ways++
		}
	}
	switch {
	case ways == 0:
		add("rate", "not set, nor callers, nor trace; expected one: rate or trace for an open loop, callers for a closed one")
	case ways > 1:
		add("rate", "set beside another of callers, rate and trace; expected one: rate or trace for an open loop, callers "+
			"for a closed one")
	case s.Callers < 0 || s.Callers > maxInFlight:
		add("callers", "%d is out of range; expected 1 to %d", s.Callers, maxInFlight)
	case s.Rate != 0 && !(s.Rate > 0 && s.Rate <= 1e7):
		add("rate", "%v is out of range; expected requests per second, above 0 and at most 1e7", s.Rate)
	}
	switch {
	case s.Arrivals == gamma && !(s.CV > 0 && s.CV <= 100):
		add("cv", "%v is out of range for arrivals gamma; expected a number above 0 and at most 100, such as 2", s.CV)
	// Poisson arrivals have a CV of 1, and constant ones of 0.
	case s.Arrivals != gamma && s.CV != 0:
		add("cv", "arrivals are %s; expected gamma, the only ones with a coefficient of variation", s.Arrivals)
	}
	if s.Patience < 0 {
		add("patience", "%v is negative; expected a duration such as 1s, or 0 for none", s.Patience)
	}
	config.Between(&faults, key("retries"), s.Retries, 0, 100)
	config.Between(&faults, key("rows"), s.Rows, 1, math.MaxInt32)
	config.Between(&faults, key("open_dims"), s.OpenDims, 1, math.MaxInt32)
	return faults
}

// spec returns the model, and the version if one is chosen.
func (s *Stream) spec() *weftv1.ModelSpec {
	spec := &weftv1.ModelSpec{Name: s.Model}
	switch {
	case s.Version > 0:
		spec.VersionChoice = &weftv1.ModelSpec_Version{Version: s.Version}
	case s.Label != "":
		spec.VersionChoice = &weftv1.ModelSpec_Label{Label: s.Label}
	}
	return spec
}
