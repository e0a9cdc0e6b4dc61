package server

import (
	"sync"

	"google.golang.org/grpc/health"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/weftserve/weft/runtime/catalog"
)

// modelHealth keeps grpc.health.v1 in step with the models. A service named like a model is SERVING while a version is ready that answers those who
// name none. The server as a whole (service "") becomes SERVING once some model is ready and none still waits for its first
// version, and stays so until it drains: a model that is added or fails later is that model's affair.
type modelHealth struct {
	server *health.Server

	mu       sync.Mutex
	revision uint64          // guarded by mu; of the snapshot followed last
	models   map[string]bool // guarded by mu; every model ever reported
}

// wholeServer is the service name by which callers ask for the server as a whole.
const wholeServer = ""

func newModelHealth(server *health.Server) *modelHealth {
	server.SetServingStatus(wholeServer, healthgrpc.HealthCheckResponse_NOT_SERVING)
	return &modelHealth{server: server, models: make(map[string]bool)}
}

// follow brings the statuses in step with s. A snapshot older than one already followed is ignored.
func (h *modelHealth) follow(s *catalog.Snapshot) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.Revision < h.revision {
		return
	}
	h.revision = s.Revision
	for name := range h.models {
		if s.Model(name) == nil {
			h.server.SetServingStatus(name, healthgrpc.HealthCheckResponse_SERVICE_UNKNOWN)
		}
	}
	anyReady, anyComing := false, false
	for _, m := range s.Models {
		h.models[m.Name] = true
		status := healthgrpc.HealthCheckResponse_NOT_SERVING
		if m.Answers() {
			status = healthgrpc.HealthCheckResponse_SERVING
			anyReady = true
		} else if isComing(m) {
			anyComing = true
		}
		h.server.SetServingStatus(m.Name, status)
	}
	if anyReady && !anyComing {
		h.server.SetServingStatus(wholeServer, healthgrpc.HealthCheckResponse_SERVING)
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
