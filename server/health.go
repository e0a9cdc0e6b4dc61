package server

import (
	"maps"
	"slices"
	"sync"

	"google.golang.org/grpc/health"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/weftserve/weft/runtime/catalog"
)

// modelHealth keeps grpc.health.v1 in step with the models. A service named like a model is SERVING while a version is
// ready, and not stalled, that answers requests that name none. The server as a whole (service "") becomes SERVING once
// some model is ready and none still waits for its first version, or for one of its traffic, except for slow proofs.
// From then on it is NOT_SERVING only while no model answers, and when it drains: a model that is added or fails later
// is that model's affair.
type modelHealth struct {
	server *health.Server

	mu       sync.Mutex
	followed *catalog.Snapshot      // guarded by mu; the one followed last
	models   map[string]modelStatus // guarded by mu; of each model that is there
	// How many models have a version that answers, and how many of them are stalled; how many models have none yet, or
	// lack one of their traffic, and load one, and for how many of them others wait. Guarded by mu.
	answering, stalled, loading, coming int
	begun                               bool // guarded by mu; the whole server was reported as SERVING
	serving                             bool // guarded by mu; it is now
	retired                             bool // guarded by mu; nothing is SERVING any more, but the process lives
}

// modelStatus is the part of a model's state that decides the health of the server.
type modelStatus struct{ answers, stalled, loading, coming bool }

// serves reports whether the model is SERVING.
func (s modelStatus) serves() bool { return s.answers && !s.stalled }

// The service names that are no models. A model of such a name has no health of its own by this protocol.
const (
	wholeServer  = ""      // the server as a whole
	readyService = "ready" // the same, for probes that cannot ask for a service without a name
	liveService  = "live"  // SERVING until the process ends
)

// OwnHealth reports whether a service of grpc.health.v1 is the server's, so that no model is.
func OwnHealth(service string) bool {
	return service == wholeServer || service == readyService || service == liveService
}

// isModel reports whether a service is, or would be, a model.
func isModel(service string) bool { return !OwnHealth(service) }

// newModelHealth returns the health of a server without models, NOT_SERVING.
func newModelHealth(server *health.Server) *modelHealth {
	h := &modelHealth{server: server, followed: &catalog.Snapshot{}, models: map[string]modelStatus{}}
	h.set(wholeServer, false)
	h.set(readyService, false)
	h.set(liveService, true)
	return h
}

// The states of the whole server, which is SERVING exactly while it is ready.
const (
	ready       = "ready"
	loading     = "loading"
	stalled     = "stalled"     // all models that are ready
	unavailable = "unavailable" // there is no model that could answer
	draining    = "draining"
)

// state returns the state of the whole server, for all who ask whether it is ready. A server that has never been ready
// is not stalled while a model still loads for the first time: coming counts these.
func (h *modelHealth) state() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.retired:
		return draining
	case h.serving:
		return ready
	case h.answering > 0 && (h.begun || h.coming == 0):
		return stalled
	case h.loading > 0 || h.followed.Revision == 0:
		return loading
	}
	return unavailable
}

// follow brings the statuses in step with s: of the models that changed, however many there are. A snapshot older than
// one already followed is ignored. It may be called by any goroutine.
func (h *modelHealth) follow(s *catalog.Snapshot) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.Revision < h.followed.Revision || h.retired {
		return
	}
	changed := s.Models.Since(h.followed.Models)
	h.followed = s
	for name, m := range changed {
		before, known := h.models[name]
		h.count(before, -1)
		if m == nil {
			delete(h.models, name)
			if isModel(name) {
				h.server.SetServingStatus(name, healthgrpc.HealthCheckResponse_SERVICE_UNKNOWN)
			}
			continue
		}
		now := modelStatus{answers: m.Answers()}
		now.stalled = now.answers && !m.Responds()
		if !now.answers || gathers(m) {
			now.loading, now.coming = isLoading(m)
		}
		h.models[name] = now
		h.count(now, 1)
		if isModel(name) && (!known || now.serves() != before.serves()) {
			h.set(name, now.serves())
		}
	}
	h.begun = h.begun || h.answering > h.stalled && h.coming == 0
	if serving := h.begun && h.answering > h.stalled; serving != h.serving {
		h.serving = serving
		h.set(wholeServer, serving)
		h.set(readyService, serving)
	}
}

// retire says that nothing serves any more, whatever the models do from now on.
func (h *modelHealth) retire() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.retired = true
	for name := range h.models {
		if isModel(name) {
			h.set(name, false)
		}
	}
	h.set(wholeServer, false)
	h.set(readyService, false)
}

// services returns the names of all services that have a health: the models that are there, and those of the server.
func (h *modelHealth) services() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	models := slices.DeleteFunc(slices.Collect(maps.Keys(h.models)), func(name string) bool { return !isModel(name) })
	return append(models, wholeServer, readyService, liveService)
}

// set tells the health of a service.
func (h *modelHealth) set(service string, serving bool) {
	status := healthgrpc.HealthCheckResponse_NOT_SERVING
	if serving {
		status = healthgrpc.HealthCheckResponse_SERVING
	}
	h.server.SetServingStatus(service, status)
}

// count adds a model to the counts (by 1), or takes it out (by -1). The caller holds mu, as for set.
func (h *modelHealth) count(s modelStatus, by int) {
	if s.answers {
		h.answering += by
	}
	if s.stalled {
		h.stalled += by
	}
	if s.loading {
		h.loading += by
	}
	if s.coming {
		h.coming += by
	}
}

// gathers reports whether a version that the traffic leads to is being loaded: without a split the newest. Its episodes
// go to other versions until then, and on another server they do not.
func gathers(m *catalog.Model) bool {
	loads := func(number int64) bool {
		v := m.Version(number)
		return v != nil && v.State == catalog.Loading
	}
	if slices.ContainsFunc(m.TrafficWaitsFor, loads) {
		return true
	}
	if m.Traffic != nil && len(m.Traffic.Split) > 0 {
		return slices.ContainsFunc(m.Traffic.Split, func(s catalog.Slot) bool { return s.Weight > 0 && loads(s.Version) })
	}
	newest := m.Newest()
	return newest != nil && slices.ContainsFunc(m.Versions, func(v *catalog.Version) bool {
		return v.Number > newest.Number && v.State == catalog.Loading && !v.StepOnly && !m.WasRolledBack(v.Number)
	})
}

// isLoading reports whether a version of a model is being loaded, and whether readiness waits for one that is: it does
// not for slow proofs, which may take minutes while other models answer.
func isLoading(m *catalog.Model) (loads, awaited bool) {
	for _, v := range m.Versions {
		if v.State == catalog.Loading {
			loads = true
			awaited = awaited || v.Loading == nil || !v.Loading().Slow
		}
	}
	return loads, awaited
}
