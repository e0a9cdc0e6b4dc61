package weftapi

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/grpc"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/activity"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/protect"
	"github.com/weftserve/weft/server/routing"
	"github.com/weftserve/weft/server/status"
)

const (
	// mostBack is how far back the first answer to a viewer may reach, as the API says.
	mostBack = time.Minute
	// fewRequests is how many requests are listed where the caller gives no number, and mostRequests bounds that number.
	fewRequests  = 100
	mostRequests = 1_000
)

// WatchActivity implements weftv1.ModelServiceServer. It returns when the caller leaves, when the server leaves, or
// after one answer if the caller wants no more. A viewer for whom there is no room gets a *status.ViewersError.
func (s Catalog) WatchActivity(
	req *weftv1.WatchActivityRequest, call grpc.ServerStreamingServer[weftv1.WatchActivityResponse],
) error {
	ctx, cancel := context.WithCancel(call.Context())
	defer cancel()
	go func() { // a drain waits for no viewer; this ends with the call at the latest
		select {
		case <-s.Pipeline.Gate().Reached(predict.Leaving):
			cancel()
		case <-ctx.Done():
		}
	}()
	back := min(time.Duration(req.GetBackMs())*time.Millisecond, mostBack)
	var err error
	// protect.Reads tells how much has arrived at the viewer, so that one that does not read makes room for another.
	watched := s.Activity.Follow(ctx, back, protect.Reads(ctx), func(f *activity.Frame) bool {
		if req.GetNumbersOnly() {
			f = f.Numbers()
		}
		err = call.Send(&weftv1.WatchActivityResponse{Activity: f.Activity})
		return err == nil && !req.GetOnce()
	})
	if !watched {
		return s.Fail(ctx, &status.ViewersError{Limit: activity.MostViewers}, predict.Place{})
	}
	return err
}

// GetHistory implements weftv1.ModelServiceServer.
func (s Catalog) GetHistory(ctx context.Context, req *weftv1.GetHistoryRequest) (*weftv1.GetHistoryResponse, error) {
	// A version has a number within its model only.
	if req.GetModel() == "" && req.GetVersion() != 0 {
		return nil, s.Fail(ctx, &tensor.FieldError{
			Field: "model", Want: "the name of a model, of which the version is", Got: "none",
		}, predict.Place{})
	}
	if req.GetModel() != "" {
		if _, err := s.model(req.GetModel()); err != nil {
			return nil, s.Fail(ctx, err, predict.Place{})
		}
	}
	return &weftv1.GetHistoryResponse{
		History: s.Activity.History(req.GetModel(), int64(req.GetVersion()), req.GetDay()),
	}, nil
}

// ListRequests implements weftv1.ModelServiceServer. It lists the latest requests first; a limit of 0 is fewRequests.
func (s Catalog) ListRequests(
	ctx context.Context, req *weftv1.ListRequestsRequest,
) (*weftv1.ListRequestsResponse, error) {
	if n := req.GetLimit(); n > mostRequests {
		return nil, s.Fail(ctx, &tensor.FieldError{
			Field: "limit", Want: "at most " + strconv.Itoa(mostRequests), Got: strconv.Itoa(int(n)),
		}, predict.Place{})
	}
	most := int(req.GetLimit())
	if most == 0 {
		most = fewRequests
	}
	return s.Activity.Requests(req.GetModel(), req.GetEnd(), most), nil
}

// ExplainRequest implements weftv1.ModelServiceServer.
func (s Catalog) ExplainRequest(
	ctx context.Context, req *weftv1.ExplainRequestRequest,
) (*weftv1.ExplainRequestResponse, error) {
	if req.GetRequest() == "" {
		return nil, s.Fail(ctx, &tensor.FieldError{
			Field: "request", Want: `the caller's name for a request, or the server's number, such as "#1234"`, Got: "none",
		}, predict.Place{})
	}
	e := s.Activity.Explain(req.GetRequest())
	if e == nil {
		return nil, s.Fail(ctx, &status.AbsentError{
			What: fmt.Sprintf("no request %s is remembered", routing.Quote(req.GetRequest())),
			Remedy: "it has not ended, ended too long ago, or was never here; ListRequests lists the latest that " +
				"were late or not answered",
		}, predict.Place{})
	}
	return &weftv1.ExplainRequestResponse{Explanation: e}, nil
}
