package replay

import (
	"fmt"
	"time"

	"github.com/weftserve/weft/internal/certs"
	"github.com/weftserve/weft/internal/config"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server/rollout"
)

// Options choose the requests to replay, the version that gets them, and the limits of the gate.
type Options struct {
	Files   []string `arg:"" name:"file" help:"Files or directories that \"weft serve --record\" wrote." type:"path"`
	Target  string   `required:"" help:"The server, or unix:/PATH." placeholder:"HOST:PORT"`
	Model   string   `help:"Replay requests of this model; default: the first request's." placeholder:"NAME"`
	Version int64    `help:"Ask this version; default: as each recorded request asked." xor:"choice" placeholder:"N"`
	Label   string   `help:"Ask the version with this label." xor:"choice" placeholder:"NAME"`

	certs.Client `embed:"" group:"TLS"`

	RecordedVersion int64 `help:"Replay only requests that this version answered." placeholder:"N"`

	Speed       Speed           `default:"recorded" help:"Pace of the requests: recorded, a factor such as 2 or 0.5, or max."`
	Concurrency int             `default:"64" help:"Largest number of requests in flight."`
	MaxGap      config.Duration `help:"Shorten longer recorded pauses between requests to this." placeholder:"DURATION"`
	Timeout     config.Duration `help:"Deadline of each request; default: the recorded one, else 30s." placeholder:"DURATION"`
	tolerances

	// The limits of the gate.
	MinRequests     int64   `default:"100" help:"Gate: answers to compare that are needed."`
	MaxErrorRate    float64 `default:"0.01" help:"Gate: largest fraction of requests on which the model fails."`
	MaxLatencyRatio float64 `default:"1.5" help:"Gate: largest ratio of p95 compute times, replayed to recorded."`
	MaxFailures     float64 `name:"max-failure-increase" default:"0.01" help:"Gate: allowed excess over the recording in the fraction of other failures."`
	MaxUncompared   float64 `default:"0.1" help:"Gate: largest fraction of requests that cannot be compared."`
	MinAgreement    float64 `default:"0" help:"Gate: least fraction of equal answers; 0 disables the check."`
}

// check finds a mistake in the flags before any file is read.
func (c *Options) check() error {
	if err := c.tolerances.check(); err != nil {
		return err
	}
	gate := c.gate()
	switch {
	// 0 is the gate's default
	case c.MinRequests < 1 || !(c.MaxErrorRate > 0) || !(c.MaxLatencyRatio > 0) || !(c.MaxFailures > 0):
		return wrong("--min-requests, --max-error-rate, --max-latency-ratio and --max-failure-increase",
			"expected a number above 0, found %d, %v, %v and %v",
			c.MinRequests, c.MaxErrorRate, c.MaxLatencyRatio, c.MaxFailures)
	// Comparisons are written so that NaN fails them.
	case !(c.MaxUncompared >= 0 && c.MaxUncompared <= 1):
		return wrong("--max-uncompared", "expected a number from 0 to 1, found %v", c.MaxUncompared)
	case c.MaxGap < 0:
		return wrong("--max-gap", "expected a duration of at least 0, found %v", time.Duration(c.MaxGap))
	case c.Concurrency < 1:
		return wrong("--concurrency", "expected at least 1, found %d", c.Concurrency)
	case c.Version < 0:
		return wrong("--version", "expected a positive number, found %d", c.Version)
	case c.RecordedVersion < 0:
		return wrong("--recorded-version", "expected a positive number, found %d", c.RecordedVersion)
	}
	if err := gate.Check(); err != nil {
		return config.Faults{{Message: err.Error()}}
	}
	return nil
}

// wrong returns the fault of a flag.
func wrong(flag, format string, args ...any) error {
	return config.Faults{{Key: flag, Message: fmt.Sprintf(format, args...)}}
}

// gate returns the limits as a rollout has them.
func (c *Options) gate() rollout.Gate {
	return rollout.Gate{
		MinRequests: c.MinRequests, MaxErrorRate: c.MaxErrorRate, MaxLatencyRatio: c.MaxLatencyRatio,
		MinAgreement:       c.MinAgreement,
		MaxFailureIncrease: c.MaxFailures,
	}
}

// choose makes the request ask for the version that was chosen, if one was.
func (c *Options) choose(q *weftv1.PredictRequest) {
	chosen := &weftv1.ModelSpec{Name: q.GetModel().GetName()}
	switch {
	case c.Version > 0:
		chosen.VersionChoice = &weftv1.ModelSpec_Version{Version: c.Version}
	case c.Label != "":
		chosen.VersionChoice = &weftv1.ModelSpec_Label{Label: c.Label}
	default:
		return
	}
	q.Model = chosen
}

// asked says for people which version gets the requests.
func (c *Options) asked() string {
	switch {
	case c.Version > 0:
		return fmt.Sprintf("version %d", c.Version)
	case c.Label != "":
		return fmt.Sprintf("the version with the label %q", c.Label)
	}
	return "what each request asked for"
}
