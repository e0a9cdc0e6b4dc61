package openinference

import (
	"context"
	"errors"

	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/routing"
)

// ServerLive implements inference.GRPCInferenceServiceServer.
func (*Service) ServerLive(context.Context, *inference.ServerLiveRequest) (*inference.ServerLiveResponse, error) {
	return &inference.ServerLiveResponse{Live: true}, nil
}

// ServerReady implements inference.GRPCInferenceServiceServer.
func (s *Service) ServerReady(context.Context, *inference.ServerReadyRequest) (*inference.ServerReadyResponse, error) {
	return &inference.ServerReadyResponse{Ready: s.Ready()}, nil
}

// ModelReady implements inference.GRPCInferenceServiceServer. A version that exists and does not answer is not ready,
// which is no error; a name that is unknown is one.
func (s *Service) ModelReady(
	ctx context.Context, q *inference.ModelReadyRequest,
) (*inference.ModelReadyResponse, error) {
	v, err := s.version(q.GetName(), q.GetVersion())
	if err != nil && !notReady(err) {
		return nil, s.fail(ctx, err)
	}
	return &inference.ModelReadyResponse{Ready: s.answers(q, v)}, nil
}

// answers reports whether requests of a model are answered at present; v is the version that one would get now. For
// requests that name no version it says what grpc.health.v1 does.
func (s *Service) answers(q *inference.ModelReadyRequest, v *catalog.Version) bool {
	if s.Pipeline.Gate().Has(predict.Retiring) {
		return false
	}
	if m := s.Pipeline.Snapshot().Model(q.GetName()); q.GetVersion() == "" && m != nil {
		return m.Responds()
	}
	return v != nil && v.State == catalog.Ready && v.Stalled == ""
}

// notReady reports whether an error says that a version does not answer at present.
func notReady(err error) bool {
	_, waits := errors.AsType[*routing.NotReadyError](err)
	_, failed := errors.AsType[*routing.FailedError](err)
	_, out := errors.AsType[*routing.TakenOutError](err)
	_, back := errors.AsType[*routing.RolledBackError](err)
	return waits || failed || out || back
}

// version returns the version that a request gets if it names this one; "": if it names none.
func (s *Service) version(model, version string) (*catalog.Version, error) {
	if err := predict.CheckModel(model); err != nil {
		return nil, err
	}
	var choice routing.Choice
	if version != "" {
		n, err := versionOf(version)
		if err != nil {
			return nil, err
		}
		choice.Version = &n
	}
	route, err := s.Pipeline.Table().Resolve(model, choice)
	if err != nil {
		return nil, err
	}
	return route.Version, nil
}
