package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/lifecycle"
	"github.com/weftserve/weft/internal/telemetry"
	"github.com/weftserve/weft/runtime/audit"
	"github.com/weftserve/weft/runtime/tensor/compare"
	"github.com/weftserve/weft/server/shadow"
)

// showNoise tells the mirror how much a version's answer in a batch differs from the same version's answer alone.
// Differences of a shadow as small as that are noise.
func showNoise(m *shadow.Mirror, c *audit.Comparison) {
	for i, o := range c.Outputs {
		m.Audited(c.Model, c.Version,
			compare.Output{Name: o.Name, Tensor: c.InBatch[i], BatchDim: o.BatchDim}, c.Alone[i])
	}
}

// newMirror returns the mirror that sends copies of requests to shadows, and its part. path is the file of
// --shadow-log, "" for none; lines are appended, so that the log of an earlier server stays. shown hears the result of
// each comparison.
func newMirror(models shadow.Models, path string, measured *telemetry.Telemetry,
	shown func(model string, shadow int64, episode, outcome string, agreed bool), log *slog.Logger,
) (*shadow.Mirror, lifecycle.Part, error) {
	// lines stays nil without a file: a nil *os.File in it would not be nil.
	var lines io.Writer
	var file *os.File
	if path != "" {
		var err error
		if file, err = os.OpenFile(config.Absolute(path), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o640); err != nil {
			return nil, lifecycle.Part{}, fmt.Errorf("--shadow-log: %w; name a file that this server may append to", err)
		}
		lines = file
	}
	m := shadow.New(shadow.Config{
		Models: models, Observer: measured, Shown: shown, Log: lines, Logger: log,
	})
	return m, lifecycle.Part{Name: "shadows", Stop: func(ctx context.Context) error {
		if err := m.Close(ctx); err != nil {
			// They were promised to nobody.
			log.Warn("shadow requests left out at the stop", "event", "shadows_abandoned", "cause", err)
		}
		if file != nil {
			return file.Close()
		}
		return nil
	}}, nil
}
