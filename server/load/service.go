package load

import (
	"sync/atomic"
	"time"

	orca "github.com/cncf/xds/go/xds/data/orca/v3"
	service "github.com/cncf/xds/go/xds/service/orca/v3"
	"google.golang.org/grpc"

	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/status"
	"github.com/weftserve/weft/sharedsched"
)

const (
	// leastInterval is how often a stream gets a report at most.
	leastInterval = 100 * time.Millisecond
	// each is what one more stream adds to the intervals of all: they get at most a thousand reports a second together,
	// for anybody may open one.
	each = time.Millisecond
)

// Service is xds.service.orca.v3.OpenRcaService: callers get a report as often as they ask for. That of gRPC's package
// orca gives one every 30 s at most.
type Service struct {
	service.UnimplementedOpenRcaServiceServer
	Meter *Meter
	// Over is closed when the server drains: a stream lasts as long as its caller, and a stop would wait for it.
	Over <-chan struct{}

	open atomic.Int64 // streams
}

// StreamCoreMetrics implements service.OpenRcaServiceServer.
func (s *Service) StreamCoreMetrics(
	request *service.OrcaLoadReportRequest, stream grpc.ServerStreamingServer[orca.OrcaLoadReport],
) error {
	s.open.Add(1)
	defer s.open.Add(-1)
	ctx, asked := stream.Context(), request.GetReportInterval().AsDuration()
	for {
		if err := stream.Send(s.Meter.current.Load().report); err != nil {
			return err
		}
		least := max(leastInterval, time.Duration(s.open.Load())*each)
		select {
		case <-time.After(max(asked, least)):
		case <-s.Over:
			return status.Fail(ctx, sharedsched.ErrDraining, predict.Place{})
		case <-ctx.Done():
			return status.Fail(ctx, ctx.Err(), predict.Place{})
		}
	}
}
