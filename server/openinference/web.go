package openinference

import (
	"net/http"

	"google.golang.org/protobuf/proto"

	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/server/web"
)

// Web serves the protocol over HTTP and JSON, with Triton's extension for tensors as bytes.
//
// A page is a path with the call of gRPC that it stands for. It reads the path and the body into the message of the
// call, and calls Service.
type Web struct {
	*Service
	Pages web.Pages
}

// Register has mux serve all paths below /v2. It panics if there is no access rule for a call.
func (s *Web) Register(mux *web.Mux) {
	page := func(pattern, method string, answer func(*web.Visit) (any, error)) {
		s.Pages.Add(mux, pattern, inference.GRPCInferenceService_ServiceDesc.ServiceName, method,
			func(v *web.Visit) (any, error) {
				made, err := answer(v)
				if m, is := made.(proto.Message); is && err == nil {
					made = shown(v, m)
				}
				return made, err
			})
	}
	page("GET /v2", "ServerMetadata", func(v *web.Visit) (any, error) {
		return s.ServerMetadata(v.Ctx, &inference.ServerMetadataRequest{})
	})
	page("GET /v2/health/live", "ServerLive", func(v *web.Visit) (any, error) {
		return s.ServerLive(v.Ctx, &inference.ServerLiveRequest{})
	})
	page("GET /v2/health/ready", "ServerReady", func(v *web.Visit) (any, error) {
		return s.ServerReady(v.Ctx, &inference.ServerReadyRequest{})
	})
	page("POST /v2/repository/index", "RepositoryIndex", func(v *web.Visit) (any, error) {
		q := &inference.RepositoryIndexRequest{}
		err := v.Read(func(in *web.Scanner) error {
			return in.Members([]string{"ready"}, func(int) (err error) {
				q.Ready, err = in.Bool()
				return err
			})
		})
		if err != nil {
			return nil, s.fail(v.Ctx, err)
		}
		index, err := s.RepositoryIndex(v.Ctx, q)
		return listed(index), err
	})
	page("POST /v2/repository/models/{model}/load", "RepositoryModelLoad", func(v *web.Visit) (any, error) {
		q := &inference.RepositoryModelLoadRequest{ModelName: v.Model()}
		err := v.Read(func(in *web.Scanner) error {
			return in.Members([]string{"parameters"}, func(int) error {
				return in.FirstName(func(key string) { // which says what is not supported
					q.Parameters = map[string]*inference.ModelRepositoryParameter{key: {}}
				})
			})
		})
		if err != nil {
			return nil, s.fail(v.Ctx, err)
		}
		v.Slow()
		return s.RepositoryModelLoad(v.Ctx, q)
	})
	page("POST /v2/repository/models/{model}/unload", "RepositoryModelUnload", func(v *web.Visit) (any, error) {
		v.Slow()
		return s.RepositoryModelUnload(v.Ctx, &inference.RepositoryModelUnloadRequest{ModelName: v.Model()})
	})
	page("GET /v2/models/stats", "ModelStatistics", func(v *web.Visit) (any, error) {
		return s.ModelStatistics(v.Ctx, &inference.ModelStatisticsRequest{})
	})
	for _, of := range []string{"/v2/models/{model}", "/v2/models/{model}/versions/{version}"} {
		page("GET "+of, "ModelMetadata", func(v *web.Visit) (any, error) {
			return s.ModelMetadata(v.Ctx, &inference.ModelMetadataRequest{Name: v.Model(), Version: v.Version()})
		})
		page("GET "+of+"/ready", "ModelReady", func(v *web.Visit) (any, error) {
			return s.ModelReady(v.Ctx, &inference.ModelReadyRequest{Name: v.Model(), Version: v.Version()})
		})
		page("GET "+of+"/config", "ModelConfig", func(v *web.Visit) (any, error) {
			config, err := s.ModelConfig(v.Ctx, &inference.ModelConfigRequest{Name: v.Model(), Version: v.Version()})
			return config.GetConfig(), err
		})
		page("GET "+of+"/stats", "ModelStatistics", func(v *web.Visit) (any, error) {
			return s.ModelStatistics(v.Ctx, &inference.ModelStatisticsRequest{Name: v.Model(), Version: v.Version()})
		})
		page("POST "+of+"/infer", "ModelInfer", s.infer)
	}
	s.regions(page)
	s.settings(page)
}

// shown returns the answer of a page that a message makes: one that says that something is not ready is 503.
func shown(v *web.Visit, m proto.Message) any {
	said := plain(m.ProtoReflect())
	ready, is := m.(interface{ GetReady() bool })
	if !is {
		return said
	}
	if model := v.Model(); model != "" {
		said["name"] = model
	}
	if ready.GetReady() {
		return said
	}
	return web.Coded{Code: http.StatusServiceUnavailable, Value: said}
}
