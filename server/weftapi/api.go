// Package weftapi serves Weft's own API, weft.v1, by gRPC: predictions, the state of models, and changes to them.
//
// Package transport runs predictions. A codec reads each request and writes its answer; it decodes plain messages by
// hand, so that tensors need not be copied (package server/wire). All other calls have small messages and are handlers
// of generated code. They convert between messages and the types of the packages that do the work: catalog, rollout,
// shadow, sharedsched.
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

	// Scheduler and Activity are only shown.
	Scheduler SchedulerState
	Activity  *activity.Log
	// NotPersistedBecause tells callers why changes at run time end with the server; "": they outlive it.
	NotPersistedBecause string
	// Each of these may be nil: nobody counts reports, and there are no shadows or rollouts to show.
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
	weftv1.UnimplementedPredictionServiceServer // its Predict is never called, see NewRequest
	*API
}

// NewRequest implements transport.Predicting. It returns a pooled codec for Predict, which transport then runs instead
// of a generated handler; nil: the method has a handler.
func (s Predictions) NewRequest(method string) transport.Request {
	if method != "Predict" {
		return nil
	}
	return s.request(false)
}

// Catalog implements ModelService, which shows the state of models, of the scheduler and of the server. It changes
// nothing.
type Catalog struct {
	weftv1.UnimplementedModelServiceServer
	*API
	// Operated: every caller of this listener may change how models are served, unless the access file says otherwise. It
	// decides whether single requests may be shown.
	Operated bool
}

// snapshot returns every known model, as of now. It is immutable.
func (a *API) snapshot() *catalog.Snapshot { return a.Pipeline.Snapshot() }

// table returns the routing table of this moment.
func (a *API) table() *routing.Table { return a.Pipeline.Table() }

// model returns the model that a message names in its field "model". The error is a *tensor.FieldError, or a
// *routing.NotFoundError that lists the models.
func (a *API) model(name string) (*catalog.Model, error) {
	if name == "" {
		return nil, &tensor.FieldError{Field: "model", Want: "the name of a model", Got: "none"}
	}
	return a.table().Model(name)
}
