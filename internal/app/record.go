package app

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/lifecycle"
	"github.com/weftserve/weft/internal/record"
	"github.com/weftserve/weft/internal/telemetry"
	"github.com/weftserve/weft/server"
)

// recorder hands what the server tells of requests to the files.
type recorder struct{ writer *record.Writer }

// newRecorder starts a recording as the settings ask for.
func newRecorder(s *config.Server, log *slog.Logger) (*recorder, error) {
	w, err := record.New(record.Config{
		Dir: s.Record, Sample: s.RecordSample, Inputs: record.Inputs(s.RecordInputs), MaxBytes: int64(s.RecordLimit), Logger: log,
	})
	if err != nil {
		return nil, fmt.Errorf("--record %s: %w", s.Record, err)
	}
	return &recorder{w}, nil
}

// Record implements server.Recorder.
func (r *recorder) Record(e *server.Recorded) {
	r.writer.Record(record.Entry{
		At: e.At, Code: e.Code, Message: e.Message, Model: e.Model, Version: e.Version, Slot: e.Slot,
		LimitUs: e.Limit.Microseconds(), Request: e.Request, Response: e.Response,
	})
}

func (r *recorder) stats() telemetry.Recording {
	s := r.writer.Stats()
	return telemetry.Recording{Written: s.Written, Dropped: s.Dropped, Lost: s.Lost, Bytes: s.Bytes, Deleted: s.Deleted}
}

func (r *recorder) part() lifecycle.Part {
	return lifecycle.Part{Name: "recording", Stop: func(ctx context.Context) error { return r.writer.Close(ctx) }}
}
