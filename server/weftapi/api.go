package weftapi

import (
	"log/slog"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/routing"
	"github.com/weftserve/weft/server/throttle"
	"github.com/weftserve/weft/sharedsched"
)

// API holds the parts that the services of weft.v1 share. It must not be changed once one of them is used.
type API struct {
	Pipeline *predict.Pipeline
	// Scheduler is only shown.
	Scheduler SchedulerState
	// MaxInFlightPerStream is how many requests of one stream may be unanswered before the server stops reading it.
	MaxInFlightPerStream int
	// MaxMessageBytes is the largest answer in bytes, with its framing on a stream.
	MaxMessageBytes int
	// Memory is where answers lie until they were sent.
	Memory tensor.Memory
	// Throttle learns how requests ended.
	Throttle *throttle.Throttle
	// Logger gets changes.
	Logger *slog.Logger
	// NotPersistedBecause tells callers why changes at run time end with the server; "": they outlive it.
	NotPersistedBecause string
	// Each of these may be nil.
	Outcomes OutcomeObserver
	Shadows  Shadows
	Rollouts Rollouts
}

// SchedulerState shows the scheduler's state.
type SchedulerState interface {
	// State returns a snapshot that the caller owns. It may wait for the scheduler's lock.
	State() sharedsched.State
}

// Catalog implements ModelService, which shows the state of models.
type Catalog struct {
	weftv1.UnimplementedModelServiceServer
	*API
}

// snapshot returns every known model.
func (a *API) snapshot() *catalog.Snapshot { return a.Pipeline.Snapshot() }

// table returns the routing table of this moment.
func (a *API) table() *routing.Table { return a.Pipeline.Table() }

// model returns the model that a message names in its field "model".
func (a *API) model(name string) (*catalog.Model, error) {
	if name == "" {
		return nil, &tensor.FieldError{Field: "model", Want: "the name of a model", Got: "none"}
	}
	return a.table().Model(name)
}
