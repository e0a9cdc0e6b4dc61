package load_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	orca "github.com/cncf/xds/go/xds/data/orca/v3"
	service "github.com/cncf/xds/go/xds/service/orca/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weftserve/weft/server/load"
	"github.com/weftserve/weft/sharedsched"
)

// stream is a stream of reports, and counts them.
type stream struct {
	grpc.ServerStream
	ctx     context.Context //nolint:containedctx // gRPC's interface asks for it
	reports []float64
}

func (s *stream) Context() context.Context { return s.ctx }

func (s *stream) Send(r *orca.OrcaLoadReport) error {
	s.reports = append(s.reports, r.GetApplicationUtilization())
	return nil
}

// TestIntervals: a stream gets reports as often as it asks for, but not more often than ten times a second, and all
// streams together a thousand a second. All end when the server drains.
func TestIntervals(t *testing.T) {
	for _, c := range []struct {
		asked   time.Duration
		streams int
		want    int // within a minute
	}{
		{0, 1, 600},
		{time.Millisecond, 1, 600},
		{-time.Hour, 1, 600},
		{250 * time.Millisecond, 1, 240},
		{10 * time.Second, 1, 6},
		{time.Hour, 1, 1},
		{100 * time.Millisecond, 1000, 60},
		{3 * time.Second, 1000, 20},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := &house{devices: []sharedsched.DeviceLoad{{Name: "a"}}, works: []float64{0.25}}
			over := make(chan struct{})
			s := &load.Service{Meter: h.watched(t, 0), Over: over}
			request := &service.OrcaLoadReportRequest{ReportInterval: durationpb.New(c.asked)}
			all, ended := make([]stream, c.streams), make(chan error, c.streams)
			for i := range all {
				all[i].ctx = t.Context()
				go func() { ended <- s.StreamCoreMetrics(request, &all[i]) }()
			}
			time.Sleep(time.Minute)
			close(over)
			for range all {
				if err := <-ended; status.Code(err) != codes.Unavailable {
					t.Errorf("a stream of a server that drains ends with %v", err)
				}
			}
			for i := range all {
				got := all[i].reports
				if n := len(got); n < c.want*9/10 || n > c.want+c.want/10+1 {
					t.Errorf("asked for one each %v of %d: %d reports in a minute, want %d", c.asked, c.streams, n, c.want)
				}
				if last := got[len(got)-1]; len(got) > 1 && (last < 0.24 || last > 0.26) {
					t.Errorf("the last report has %v, want 0.25", last)
				}
			}
		})
	}
}

// TestCallerLeaves: its stream ends at once.
func TestCallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began, h := time.Now(), &house{}
		s := &load.Service{Meter: h.watched(t, 0)}
		request := &service.OrcaLoadReportRequest{ReportInterval: durationpb.New(time.Hour)}
		err := s.StreamCoreMetrics(request, &stream{ctx: ctx})
		if took := time.Since(began); took != time.Second || status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("%v after %v", err, took)
		}
	})
}
