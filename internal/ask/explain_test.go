package ask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// memory is a server that remembers some requests.
type memory struct {
	weftv1.UnimplementedModelServiceServer

	known map[string]*weftv1.Explanation
}

func (m *memory) ExplainRequest(_ context.Context, q *weftv1.ExplainRequestRequest) (
	*weftv1.ExplainRequestResponse, error,
) {
	e, is := m.known[q.GetRequest()]
	if !is {
		return nil, status.Errorf(codes.NotFound, "no request %q is remembered", q.GetRequest())
	}
	return &weftv1.ExplainRequestResponse{Explanation: e}, nil
}

func (m *memory) ListRequests(_ context.Context, q *weftv1.ListRequestsRequest) (*weftv1.ListRequestsResponse, error) {
	if q.GetModel() == "idle" {
		return &weftv1.ListRequestsResponse{}, nil
	}
	return &weftv1.ListRequestsResponse{
		Requests: &weftv1.RequestColumns{
			Number: []uint32{12, 11}, Id: []string{"robot-7/step-9", ""}, Version: []uint32{1, 0},
			ArrivalMs: []float64{1000, 900}, StartMs: []float64{1030.5, 0}, EndMs: []float64{1040, 901},
			TargetMs: []float32{20, 0},
			End:      []uint32{uint32(weftv1.RequestEnd_REQUEST_END_LATE), uint32(weftv1.RequestEnd_REQUEST_END_REFUSED)},
			Reason:   []string{"", "QUEUE_FULL"},
		},
		Versions: []*weftv1.VersionActivity{{Model: "walk", Version: 3}}, InLastMinute: 40, Forgotten: 5,
	}, nil
}

// remembers returns the address of a server.
func remembers(t *testing.T) string {
	t.Helper()
	story := func(number uint32, id string) *weftv1.Explanation {
		return &weftv1.Explanation{
			Number: number, Id: id, Model: "walk", Version: 3, End: weftv1.RequestEnd_REQUEST_END_LATE, TargetMs: 20,
			Story:   []string{fmt.Sprintf("Request %d came.", number), "It waited."},
			Batch:   &weftv1.ExplainedBatch{Number: 4, Device: "cpu"},
			Holders: []*weftv1.Holder{{Model: "rank", Version: 12, Batches: 1, Ms: 47}},
		}
	}
	s := &memory{known: map[string]*weftv1.Explanation{
		"robot-7/step-9": story(12, "robot-7/step-9"), "#12": story(12, "robot-7/step-9"), "#77": story(77, ""),
		"77": story(13, "77"),
	}}
	return listen(t, s)
}

// listen returns the address of a server.
func listen(t *testing.T, s weftv1.ModelServiceServer) string {
	t.Helper()
	g := grpc.NewServer()
	weftv1.RegisterModelServiceServer(g, s)
	return weftest.Serve(t, g)
}

// explain runs the command, and returns what it prints.
func explain(t *testing.T, o *Explain) (string, error) {
	t.Helper()
	o.Timeout = config.Duration(10e9)
	var out strings.Builder
	err := o.Run(t.Context(), &out)
	return out.String(), err
}

func TestExplain(t *testing.T) {
	at := Server{Address: remembers(t)}
	const told = "Request 12 came.\nIt waited.\n"
	for _, tt := range []struct {
		o    Explain
		want string
	}{
		{Explain{Request: "robot-7/step-9"}, told},
		{Explain{Request: "#12"}, told},
		{Explain{Request: "12"}, told},               // no caller named one so
		{Explain{Request: "77"}, "Request 13 came."}, // one did
		{Explain{Request: "#77"}, "Request 77 came."},
		{Explain{Request: "#12", JSON: true}, `"holders":[{"model":"rank","version":12,"batches":1,"ms":47}]`},
		{Explain{Request: "#12", JSON: true}, `"end":"late",`},
		{
			Explain{},
			"NUMBER  FOR      END                 AFTER    WAITED   TARGET  NAME\n" +
				"#12     walk v3  late                40.0 ms  30.5 ms  20 ms   robot-7/step-9\n" +
				"#11     -        refused QUEUE_FULL  1.0 ms   1.0 ms   0 ms    \n\n" +
				"2 of 40 of the last minute, 5 of which are no longer remembered. The story of the newest: weft explain 12\n",
		},
		{Explain{Model: "idle"}, "No request for idle of the last minute was late, and all were answered.\n"},
		{Explain{Model: "idle", JSON: true}, `{"requests":[],"in_last_minute":0,"forgotten":0}`},
	} {
		tt.o.Server = at
		text, err := explain(t, &tt.o)
		if err != nil || !strings.Contains(text, tt.want) {
			t.Errorf("%+v: %v\n%swant ...%s...", tt.o, err, text, tt.want)
		}
		if tt.o.JSON && !json.Valid([]byte(text)) {
			t.Errorf("%+v: no JSON: %s", tt.o, text)
		}
	}
}

func TestExplainFailures(t *testing.T) {
	address := remembers(t)
	old := listen(t, weftv1.UnimplementedModelServiceServer{})
	for _, tt := range []struct {
		o     Explain
		usage bool
		want  string
	}{
		{
			Explain{Request: "robot-1"},
			false,
			"no request \"robot-1\" is remembered; `weft explain` without a request shows that list",
		},
		{Explain{Request: "99"}, false, `no request "#99" is remembered`},
		{Explain{Request: "99999999999"}, false, `no request "99999999999" is remembered`}, // no number of a server
		{Explain{Request: "1", Server: Server{Address: "127.0.0.1:1"}}, false, "no server answers at --address 127.0.0.1:1"},
		{Explain{Request: "1", Server: Server{Address: old}}, false, "older than this program"},
		{Explain{Limit: 1001}, true, "--limit: expected at most 1000, found 1001"},
		{Explain{Request: "1", Model: "m"}, true, "--model: "},
	} {
		if tt.o.Address == "" {
			tt.o.Address = address
		}
		text, err := explain(t, &tt.o)
		_, usage := errors.AsType[config.Faults](err)
		if err == nil || usage != tt.usage || !strings.Contains(err.Error(), tt.want) || text != "" {
			t.Errorf("%+v: %v\nwant ...%s...", tt.o, err, tt.want)
		}
	}
}
