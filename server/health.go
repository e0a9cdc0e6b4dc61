package server

import (
	"sync"

	"google.golang.org/grpc/health"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/weftserve/weft/runtime/catalog"
)

// modelHealth keeps grpc.health.v1 in step with the models. A service named like a model is SERVING while a version is
// ready that answers requests that name none. The server as a whole (service "") becomes SERVING once some model is
// ready and none still waits for its first version, and stays so until it drains: a model that is added or fails later
// is that model's affair.
type modelHealth struct {
	server *health.Server

	mu       sync.Mutex
	followed *catalog.Snapshot      // guarded by mu; the one followed last
	models   map[string]modelStatus // guarded by mu; of each model that is there
	// answering and coming are how many models answer, and how many wait for their first version. Guarded by mu.
	answering, coming int
	serving           bool // guarded by mu; the whole server was reported so
}

// modelStatus is the part of a model's state that decides the health of the server.
type modelStatus struct{ answers, coming bool }

// wholeServer is the service name by which callers ask for the server as a whole.
const wholeServer = ""

func newModelHealth(server *health.Server) *modelHealth {
	server.SetServingStatus(wholeServer, healthgrpc.HealthCheckResponse_NOT_SERVING)
	return &modelHealth{server: server, followed: &catalog.Snapshot{}, models: map[string]modelStatus{}}
}

// follow brings the statuses in step with s: of the models that changed, however many there are. A snapshot older than
// one already followed is ignored.
func (h *modelHealth) follow(s *catalog.Snapshot) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.Revision < h.followed.Revision {
		return
	}
	changed := s.Models.Since(h.followed.Models)
	h.followed = s
	for name, m := range changed {
		before, known := h.models[name]
		h.count(before, -1)
		if m == nil {
			delete(h.models, name)
			h.server.SetServingStatus(name, healthgrpc.HealthCheckResponse_SERVICE_UNKNOWN)
			continue
		}
		now := modelStatus{answers: m.Answers()}
		now.coming = !now.answers && isComing(m)
		h.models[name] = now
		h.count(now, 1)
		if known && now.answers == before.answers {
			continue
		}
		status := healthgrpc.HealthCheckResponse_NOT_SERVING
		if now.answers {
			status = healthgrpc.HealthCheckResponse_SERVING
		}
		h.server.SetServingStatus(name, status)
	}
	if !h.serving && h.answering > 0 && h.coming == 0 {
		h.serving = true
		h.server.SetServingStatus(wholeServer, healthgrpc.HealthCheckResponse_SERVING)
	}
}

func (h *modelHealth) count(s modelStatus, by int) {
	if s.answers {
		h.answering += by
	}
	if s.coming {
		h.coming += by
	}
}

func isComing(m *catalog.Model) bool {
	for _, v := range m.Versions {
		if v.State == catalog.Loading {
			return true
		}
	}
	return false
}
