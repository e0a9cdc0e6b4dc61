// Package weftapi serves the API of Weft's own, weft.v1, by gRPC: predictions, the state of models, and changes to
// them.
package weftapi

import (
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/activity"
	"github.com/weftserve/weft/server/routing"
	"github.com/weftserve/weft/server/transport"
	"github.com/weftserve/weft/sharedsched"
)

// API holds the parts that the services of weft.v1 share, besides those of all protocols. It must not be changed once
// one of them is used.
type API struct {
	*transport.Calls

	// Scheduler is only shown, and so is Activity.
	Scheduler SchedulerState
	Activity  *activity.Log
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

// Predictions implements PredictionService.
type Predictions struct {
	weftv1.UnimplementedPredictionServiceServer // stands for Predict, see NewRequest
	*API
}

// NewRequest implements transport.Predicting: the messages of Predict are not those of the generated code, see codec.
func (s Predictions) NewRequest(method string) transport.Request {
	if method != "Predict" {
		return nil
	}
	return s.request(false)
}

// Catalog implements ModelService, which shows the state of models.
type Catalog struct {
	weftv1.UnimplementedModelServiceServer
	*API
	// Operated: who reaches it may change how models are served, unless the access file says otherwise.
	Operated bool
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
