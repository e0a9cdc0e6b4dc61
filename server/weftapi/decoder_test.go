package weftapi_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/routing"
	"github.com/weftserve/weft/server/status"
	"github.com/weftserve/weft/server/weftapi"
)

// decoder is a pipeline that ends as soon as a request has been read for the only version of the only model.
type decoder struct {
	*predict.Pipeline
	version  *catalog.Version
	snapshot *catalog.Snapshot
	call     *catalog.Call
}

var errRead = errors.New("the request has been read")

func newDecoder(v *catalog.Version) *decoder {
	m := &catalog.Model{Name: v.Model, Versions: []*catalog.Version{v}}
	d := &decoder{version: v, snapshot: &catalog.Snapshot{Revision: 1, Models: catalog.ByName(m)}}
	d.Pipeline = predict.New(predict.Config{Explain: status.Explain, Logger: slog.New(slog.DiscardHandler)}, d)
	return d
}

// Snapshot implements predict.Models.
func (d *decoder) Snapshot() *catalog.Snapshot { return d.snapshot }

// Predict implements predict.Models.
func (d *decoder) Predict(_ context.Context, call *catalog.Call) error {
	d.call = call
	return errRead
}

// decode reads a request, whichever model it names.
func (d *decoder) decode(ctx context.Context, m *weftv1.PredictRequest) (*catalog.Call, error) {
	return d.read(ctx, weftapi.NewRequest(m))
}

func (d *decoder) read(ctx context.Context, req *predict.Request) (*catalog.Call, error) {
	req.Model, req.Choice = d.version.Model, routing.Choice{}
	defer d.Leave(req)
	if _, err := d.Pipeline.Predict(ctx, req); !errors.Is(err, errRead) {
		return nil, err
	}
	return d.call, nil
}

// TestDecoderReads: the checks of this package are of requests that a pipeline has read.
func TestDecoderReads(t *testing.T) {
	d := newDecoder(oneType(1))
	if call, err := d.decode(t.Context(), &weftv1.PredictRequest{}); call != nil || err == nil {
		t.Errorf("a request without inputs is read as %v, %v", call, err)
	}
}
