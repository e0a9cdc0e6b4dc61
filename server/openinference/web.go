package openinference

import (
	"context"
	"encoding/json"
	"net/http"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/server/access"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/status"
)

// Web serves the protocol over HTTP and JSON, with Triton's extension for tensors as bytes. Callers are let in by the
// rules of the calls of gRPC, with the same quotas.
//
// A page is a path with the call of gRPC that it stands for. serve lets the caller in and writes the answer; between
// them the page reads the path and the body into the message of the call, and calls Service.
type Web struct {
	*Service

	bodies atomic.Int64 // bytes of large bodies, their tensors and answers that are under way, see hold
}

// visit is a request of HTTP on its way through its page. It belongs to the goroutine of its handler.
type visit struct {
	ctx       context.Context //nolint:containedctx // the request's
	caller    *access.Caller  // nil on a server that is open to all, or before it is let in
	admission access.Admission
	held      int64 // bytes of it that count in Web.bodies
	w         http.ResponseWriter
	r         *http.Request
}

// Handler returns that of all paths below /v2. It panics if there is no access rule for a call.
func (s *Web) Handler() http.Handler {
	mux := http.NewServeMux()
	page := func(pattern, method string, answer func(*visit) (any, error)) {
		rule, err := access.RuleOf(inference.GRPCInferenceService_ServiceDesc.ServiceName, method)
		if err != nil {
			panic("openinference: " + err.Error()) // the service of gRPC could not be registered either
		}
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, &rule, answer) })
	}
	page("GET /v2", "ServerMetadata", func(v *visit) (any, error) {
		return s.ServerMetadata(v.ctx, &inference.ServerMetadataRequest{})
	})
	page("GET /v2/health/live", "ServerLive", func(v *visit) (any, error) {
		return s.ServerLive(v.ctx, &inference.ServerLiveRequest{})
	})
	page("GET /v2/health/ready", "ServerReady", func(v *visit) (any, error) {
		return s.ServerReady(v.ctx, &inference.ServerReadyRequest{})
	})
	page("POST /v2/repository/index", "RepositoryIndex", func(v *visit) (any, error) {
		q := &inference.RepositoryIndexRequest{}
		err := s.read(v, func(in *scanner) error {
			return in.members([]string{"ready"}, func(int) (err error) {
				q.Ready, err = in.bool()
				return err
			})
		})
		if err != nil {
			return nil, s.fail(v.ctx, err)
		}
		index, err := s.RepositoryIndex(v.ctx, q)
		return listed(index), err
	})
	page("POST /v2/repository/models/{model}/load", "RepositoryModelLoad", func(v *visit) (any, error) {
		q := &inference.RepositoryModelLoadRequest{ModelName: v.model()}
		err := s.read(v, func(in *scanner) error {
			return in.members([]string{"parameters"}, func(int) error {
				return in.firstName(func(key string) { // which says what is not supported
					q.Parameters = map[string]*inference.ModelRepositoryParameter{key: {}}
				})
			})
		})
		if err != nil {
			return nil, s.fail(v.ctx, err)
		}
		v.slow()
		return s.RepositoryModelLoad(v.ctx, q)
	})
	page("POST /v2/repository/models/{model}/unload", "RepositoryModelUnload", func(v *visit) (any, error) {
		v.slow()
		return s.RepositoryModelUnload(v.ctx, &inference.RepositoryModelUnloadRequest{ModelName: v.model()})
	})
	page("GET /v2/models/stats", "ModelStatistics", func(v *visit) (any, error) {
		return s.ModelStatistics(v.ctx, &inference.ModelStatisticsRequest{})
	})
	for _, of := range []string{"/v2/models/{model}", "/v2/models/{model}/versions/{version}"} {
		page("GET "+of, "ModelMetadata", func(v *visit) (any, error) {
			return s.ModelMetadata(v.ctx, &inference.ModelMetadataRequest{Name: v.model(), Version: v.version()})
		})
		page("GET "+of+"/ready", "ModelReady", func(v *visit) (any, error) {
			return s.ModelReady(v.ctx, &inference.ModelReadyRequest{Name: v.model(), Version: v.version()})
		})
		page("GET "+of+"/config", "ModelConfig", func(v *visit) (any, error) {
			config, err := s.ModelConfig(v.ctx, &inference.ModelConfigRequest{Name: v.model(), Version: v.version()})
			return config.GetConfig(), err
		})
		page("GET "+of+"/stats", "ModelStatistics", func(v *visit) (any, error) {
			return s.ModelStatistics(v.ctx, &inference.ModelStatisticsRequest{Name: v.model(), Version: v.version()})
		})
		page("POST "+of+"/infer", "ModelInfer", s.infer)
	}
	s.regions(page)
	s.settings(page)
	return mux
}

// slow lifts the server's read and write timeouts for this request: they are for bodies and answers on their way, and a
// prediction or a load may take longer. serve sets the time for the answer.
func (v *visit) slow() {
	at := http.NewResponseController(v.w)
	_ = at.SetReadDeadline(time.Time{}) // a recorder of tests has none
	_ = at.SetWriteDeadline(time.Time{})
}

// answerTime is how long a caller may take to read an answer, from when there is one.
const answerTime = 30 * time.Second

func (v *visit) model() string   { return v.r.PathValue("model") }
func (v *visit) version() string { return v.r.PathValue("version") }

// serve lets a request in, has answer make its answer, and writes that: nothing, a message, a list of messages, or what
// infer has made. A message that says that something is not ready is 503. What the request holds of quotas and of
// memory is given back when the answer was written.
func (s *Web) serve(w http.ResponseWriter, r *http.Request, rule *access.Rule, answer func(*visit) (any, error)) {
	v := &visit{ctx: r.Context(), w: w, r: r}
	defer s.leave(v)
	var made any
	err := s.admit(v, rule)
	if err == nil {
		made, err = answer(v)
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTime)) // a recorder of tests has none
	if err != nil {
		s.leave(v) // now: refuse reads the rest of the body, which may take long to come
		s.refuse(v, err)
		return
	}
	switch made := made.(type) {
	case *inferred:
		made.write(v)
	case interface{ GetReady() bool }:
		code := http.StatusOK
		if !made.GetReady() {
			code = http.StatusServiceUnavailable
		}
		said := plain(made.(proto.Message).ProtoReflect())
		if model := v.model(); model != "" {
			said["name"] = model
		}
		writeJSON(w, code, said)
	case proto.Message:
		writeJSON(w, http.StatusOK, plain(made.ProtoReflect()))
	case nil:
	default:
		writeJSON(w, http.StatusOK, made)
	}
}

// leave gives back what a request has of the quotas of its caller, and of the memory for bodies. More calls do nothing.
func (s *Web) leave(v *visit) {
	v.admission.Release()
	s.bodies.Add(-v.held)
	v.held = 0
}

// admit finds out who calls, decides whether they may, and counts the request in their quotas. The error is one with
// which a call ends.
func (s *Web) admit(v *visit, rule *access.Rule) error {
	var err error
	if v.caller, err = s.Control.EnterPage(v.r, rule); err != nil || v.caller == nil {
		return s.denied(v, rule, err)
	}
	v.ctx = access.WithCaller(v.ctx, v.caller)
	if !rule.Public {
		if v.admission, err = v.caller.Admit(time.Now); err != nil {
			return s.denied(v, rule, err)
		}
	}
	return s.denied(v, rule, v.caller.Check(rule, v.model()))
}

// denied reports a refusal to the access control, and returns the error that its caller may see; nil: nothing was
// refused.
func (s *Web) denied(v *visit, rule *access.Rule, err error) error {
	if err == nil {
		return nil
	}
	s.Control.Deny(v.ctx, v.caller, rule.Method, v.model(), err)
	return s.Fail(v.ctx, err, predict.Place{})
}

// refuse answers with an error, as JSON, and has the rest of the body passed over first.
func (s *Web) refuse(v *visit, err error) {
	code, text, retryAfter := status.HTTP(err)
	if retryAfter != "" {
		v.w.Header().Set("Retry-After", retryAfter)
	}
	if code == http.StatusUnauthorized {
		v.w.Header().Set("WWW-Authenticate", "Bearer")
	}
	v.passOver()
	s.RefusesPage(v.w, err)
	writeJSON(v.w, code, map[string]string{"error": text})
}

// writeJSON answers with a value as JSON, with a code.
func writeJSON(w http.ResponseWriter, code int, value any) {
	text, err := json.Marshal(value)
	if err != nil { // such as a statistic that is no number
		code, text = http.StatusInternalServerError, []byte(`{"error": "this cannot be written as JSON; use gRPC"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(text, '\n')) // a caller that is gone needs no answer
}
