package app

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/lifecycle"
	"github.com/weftserve/weft/internal/record"
	"github.com/weftserve/weft/internal/telemetry"
	"github.com/weftserve/weft/server/predict"
)

// recorder hands the server's records of requests to the files.
type recorder struct{ writer *record.Writer }

// newRecorder starts a recording as the settings ask for.
func newRecorder(s *config.Server, log *slog.Logger) (*recorder, error) {
	w, err := record.New(record.Config{
		Dir: s.Record, Sample: s.RecordSample, Inputs: record.Inputs(s.RecordInputs), MaxBytes: int64(s.RecordLimit),
		Logger: log,
	})
	if err != nil {
		return nil, fmt.Errorf("--record %s: %w", s.Record, err)
	}
	return &recorder{w}, nil
}

// Keep implements predict.Recorder.
func (r *recorder) Keep(e *predict.Recorded) { r.writer.Keep(e) }

func (r *recorder) stats() telemetry.Recording {
	s := r.writer.Stats()
	return telemetry.Recording{Written: s.Written, Dropped: s.Dropped, Lost: s.Lost, Bytes: s.Bytes, Deleted: s.Deleted}
}

func (r *recorder) part() lifecycle.Part {
	return lifecycle.Part{Name: "recording", Stop: func(ctx context.Context) error { return r.writer.Close(ctx) }}
}
