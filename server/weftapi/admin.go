package weftapi

import (
	"context"
	"errors"
	"regexp"
	"strconv"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/sharedsched"
)

// Residents changes which versions are served, and the labels and the traffic that lead to them. Errors are those of
// package catalog.
type Residents interface {
	// Newest returns the number of a model's newest version in the repository now.
	Newest(model string) (int64, error)
	// LoadVersion makes a version of the repository resident and returns when it is ready, or why it failed. If ctx
	// ends, the error wraps its cause, and the version goes on being loaded. by names the caller, here and below.
	LoadVersion(ctx context.Context, model string, number int64, by string) error
	// AwaitVersion returns when a version that has come into the repository is ready, or why it failed, as LoadVersion
	// does. served is false if it is not to be loaded.
	AwaitVersion(ctx context.Context, model string, number int64) (served bool, _ error)
	// UnloadVersion returns when the version's last request has ended. If ctx ends, the error wraps its cause; a
	// version that is published as unloading by then goes on draining.
	UnloadVersion(ctx context.Context, model string, number int64, by string) error
	// SetLabel moves a label to a ready version; 0 removes it.
	SetLabel(model, label string, version int64, by string) error
	// SetTraffic replaces the traffic if its revision is the expected one; 0: whatever it is.
	SetTraffic(model string, t *catalog.Traffic, expected uint64) (*catalog.Traffic, error)
}

// Admin implements AdminService: the calls that change something. Each call leaves one line in the log, whether the
// change is made or refused, see try.
type Admin struct {
	weftv1.UnimplementedAdminServiceServer
	*API
	Residents Residents
	// Uploads takes new versions; nil: none can be uploaded.
	Uploads Uploads
	// Uploaded is called with each upload that was begun, when it has ended, and how many bytes of files came. The outcome
	// is ready; stored: versions.policy does not select it; failed: it is stored, and was not ready when the call ended;
	// or refused: nothing is stored. It must not block. May be nil.
	Uploaded func(outcome string, bytes int64)
}

// now returns a model as it is now, for the answer to a change; an empty one if it is gone.
func (a Admin) now(name string) *weftv1.Model {
	if m := a.snapshot().Model(name); m != nil {
		return modelMessage(m)
	}
	return &weftv1.Model{Name: name}
}

// persisted says whether a change that was made outlives the server, and why it does not.
func (a Admin) persisted() (yes bool, whyNot string) {
	whyNot = a.NotPersistedBecause
	return whyNot == "", whyNot
}

// LoadVersion implements weftv1.AdminServiceServer. It returns when the version is ready.
func (a Admin) LoadVersion(ctx context.Context, req *weftv1.LoadVersionRequest) (*weftv1.LoadVersionResponse, error) {
	c := &attempt{call: "LoadVersion", request: req, model: req.GetModel(), version: req.GetVersion(), show: residence}
	// A version that has begun to load goes on without its caller.
	c.goesOn = func(*catalog.Model) bool { return true }
	if err := a.try(ctx, c, func() error { return a.change(ctx, c, a.Residents.LoadVersion) }); err != nil {
		return nil, err
	}
	persisted, why := a.persisted()
	return &weftv1.LoadVersionResponse{
		Model: a.now(req.GetModel()), Persisted: persisted, NotPersistedBecause: why,
	}, nil
}

// UnloadVersion implements weftv1.AdminServiceServer. It returns when the version's last request has ended.
func (a Admin) UnloadVersion(
	ctx context.Context, req *weftv1.UnloadVersionRequest,
) (*weftv1.UnloadVersionResponse, error) {
	c := &attempt{
		call: "UnloadVersion", request: req, model: req.GetModel(), version: req.GetVersion(), show: residence,
	}
	c.goesOn = func(m *catalog.Model) bool { // not where the call was still waiting for something else
		v := m.Version(c.version)
		return v == nil || v.State == catalog.Unloading
	}
	if err := a.try(ctx, c, func() error { return a.change(ctx, c, a.Residents.UnloadVersion) }); err != nil {
		return nil, err
	}
	persisted, why := a.persisted()
	return &weftv1.UnloadVersionResponse{
		Model: a.now(req.GetModel()), Persisted: persisted, NotPersistedBecause: why,
	}, nil
}

// change loads or unloads a version, by do, and returns when that has ended. It checks the model and the version first.
// When the server drains it returns sharedsched.ErrDraining at once: a drain waits for neither a load nor an unload.
func (a Admin) change(ctx context.Context, c *attempt, do func(context.Context, string, int64, string) error) error {
	if c.model == "" {
		return &tensor.FieldError{Field: "model", Want: "the name of a model", Got: "none"}
	}
	if c.version < 1 {
		return &tensor.FieldError{Field: "version", Want: "a positive number", Got: strconv.FormatInt(c.version, 10)}
	}
	if a.Pipeline.Gate().Has(predict.Leaving) {
		return sharedsched.ErrDraining // before anything has begun
	}
	ctx, cancel := a.untilDrain(ctx)
	defer cancel(nil)
	err := do(ctx, c.model, c.version, caller(ctx))
	if errors.Is(err, catalog.ErrUnknown) {
		// The runtime says that something is unknown; if that is the model, the routing table says it better.
		if _, unknown := a.model(c.model); unknown != nil {
			return unknown // its text lists the models that there are
		}
	}
	return err
}

// untilDrain returns a context that also ends when the server drains.
func (a Admin) untilDrain(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-a.Pipeline.Gate().Reached(predict.Leaving):
			cancel(sharedsched.ErrDraining)
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// validName matches the names that callers may give: to labels, to slots of traffic, and to the numbers of a report.
var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// nameRule says in words what validName matches.
const nameRule = "a letter or digit, then letters, digits, '.', '_' and '-', at most 128"

// SetLabel implements weftv1.AdminServiceServer.
func (a Admin) SetLabel(ctx context.Context, req *weftv1.SetLabelRequest) (*weftv1.SetLabelResponse, error) {
	c := &attempt{call: "SetLabel", request: req, model: req.GetModel(), version: req.GetVersion(), show: residence}
	err := a.try(ctx, c, func() error {
		if err := a.checkLabel(req); err != nil {
			return err
		}
		return a.Residents.SetLabel(req.GetModel(), req.GetLabel(), req.GetVersion(), caller(ctx))
	})
	if err != nil {
		return nil, err
	}
	persisted, why := a.persisted()
	return &weftv1.SetLabelResponse{Model: a.now(req.GetModel()), Persisted: persisted, NotPersistedBecause: why}, nil
}

// checkLabel refuses a request whose model is unknown, or whose label or version can be none. Whether the version is
// ready is for Residents.SetLabel to check.
func (a Admin) checkLabel(req *weftv1.SetLabelRequest) error {
	if _, err := a.model(req.GetModel()); err != nil {
		return err
	}
	if !validName.MatchString(req.GetLabel()) {
		return &tensor.FieldError{Field: "label", Want: nameRule, Got: strconv.Quote(predict.Clip(req.GetLabel()))}
	}
	if req.GetVersion() < 0 {
		return &tensor.FieldError{
			Field: "version", Want: "a positive number, or 0 to remove the label",
			Got: strconv.FormatInt(req.GetVersion(), 10),
		}
	}
	return nil
}

// SetTraffic implements weftv1.AdminServiceServer. The revision in the message is the one that the change is based on;
// if the traffic has changed since, the error is a *catalog.RevisionError.
func (a Admin) SetTraffic(ctx context.Context, req *weftv1.SetTrafficRequest) (*weftv1.SetTrafficResponse, error) {
	var set *catalog.Traffic // as it is now, with its new revision
	c := &attempt{call: "SetTraffic", request: req, model: req.GetModel(), show: division}
	err := a.try(ctx, c, func() error {
		m, err := a.model(req.GetModel())
		if err != nil {
			return err
		}
		wanted, err := trafficOf(m, req.GetTraffic())
		if err != nil {
			return err
		}
		wanted.By = caller(ctx)
		set, err = a.Residents.SetTraffic(req.GetModel(), wanted, req.GetTraffic().GetRevision())
		return err
	})
	if err != nil {
		return nil, err
	}
	persisted, why := a.persisted()
	return &weftv1.SetTrafficResponse{Traffic: trafficMessage(set), Persisted: persisted, NotPersistedBecause: why}, nil
}
