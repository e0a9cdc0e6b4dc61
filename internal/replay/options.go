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
	Files   []string `arg:"" name:"file" help:"Files that \"weft serve --record\" wrote, or directories of them." type:"path"`
	Target  string   `required:"" help:"The server that gets the requests, or unix:/PATH." placeholder:"HOST:PORT"`
	Model   string   `help:"Replay the requests of this model; without it, those of the first request's model." placeholder:"NAME"`
	Version int64    `help:"Send them to this version. Without it and --label, each request asks for the same version or label as when it was recorded." xor:"choice" placeholder:"N"`
	Label   string   `help:"Send them to the version with this label." xor:"choice" placeholder:"NAME"`

	certs.Client `embed:"" group:"TLS"`

	RecordedVersion int64 `help:"Replay only the requests that this version answered when they were recorded." placeholder:"N"`

	Speed       Speed           `default:"recorded" help:"recorded keeps the recorded times between requests; 2, 0.5, ... is so many times as fast; max keeps --concurrency requests in flight."`
	Concurrency int             `default:"64" help:"Most requests in flight. Requests that must wait for that are sent late, and the report says so."`
	MaxGap      config.Duration `help:"Cut longer recorded pauses between two requests to this (before --speed), such as hours without traffic; without it, all are kept. The effects of a pause are then missing (queues run empty, clocks fall, episodes expire), and overload is no proof against the version." placeholder:"DURATION"`
	Timeout     config.Duration `help:"Limit of each request; without it the recorded limit, else 30s." placeholder:"DURATION"`
	tolerances

	// The limits of the gate.
	MinRequests     int64   `default:"100" help:"Gate: requests that must have been answered."`
	MaxErrorRate    float64 `default:"0.01" help:"Gate: largest part of the requests that may fail with a fault of the model."`
	MaxLatencyRatio float64 `default:"1.5" help:"Gate: largest ratio of the 95th percentiles of the compute time, replayed to recorded."`
	MaxFailures     float64 `name:"max-failure-increase" default:"0.01" help:"Gate: largest part of the requests answered in the recording that may fail now with any code but faults of the model, in excess of the recorded part of failures."`
	MaxUncompared   float64 `default:"0.1" help:"Gate: largest part of the requests without a comparison: failed when recorded, recorded without inputs, not recorded, answered in another type or shape, steps of episodes that cannot be replayed."`
	MinAgreement    float64 `default:"0" help:"Gate: least part of the answers that must agree; 0 disables the check, since another policy may well answer otherwise."`
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
