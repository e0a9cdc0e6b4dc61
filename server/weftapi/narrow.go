package weftapi

import (
	"context"
	"errors"

	"github.com/weftserve/weft/server/doorkeeper"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/routing"
	"github.com/weftserve/weft/server/status"
)

// fail returns the error with which a unary call ends.
func (a *API) fail(ctx context.Context, err error, at predict.Place) error {
	return status.Fail(ctx, a.narrow(doorkeeper.Of(ctx), err), at)
}

// narrow returns an error as its caller may see it: one that lists models lists those that the caller may know of.
func (a *API) narrow(c *doorkeeper.Caller, err error) error {
	if c.SeesAll() {
		return err
	}
	if absent, is := errors.AsType[*routing.NotFoundError](err); is && absent.Kind == routing.KindModel {
		return a.table().Absent(absent.Name, c.Sees)
	}
	return err
}
