package weftapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/rollout"
	"github.com/weftserve/weft/server/servertest"
)

// residents is the Residents of an Admin: each call ends with err, or changes the house.
type residents struct {
	house  *servertest.House
	err    error
	panics bool
	by     string // the caller that loaded or unloaded last
}

func (*residents) Newest(string) (int64, error) { return 2, nil }

func (r *residents) LoadVersion(_ context.Context, _ string, _ int64, by string) error {
	r.by = by
	return r.end()
}

func (r *residents) UnloadVersion(_ context.Context, _ string, _ int64, by string) error {
	r.by = by
	return r.end()
}

func (r *residents) SetLabel(string, string, int64, string) error { return r.end() }

func (r *residents) SetTraffic(_ string, t *catalog.Traffic, _ uint64) (*catalog.Traffic, error) {
	if err := r.end(); err != nil {
		return nil, err
	}
	t.Revision = 9
	r.house.Divide(t)
	return t, nil
}

func (r *residents) end() error {
	if r.panics {
		panic("a bug")
	}
	return r.err
}

// drives is rollouts that end like the residents.
type drives struct {
	server.Rollouts
	end func() error
}

func (d drives) Start(p rollout.Plan, _ string) (rollout.Rollout, error) {
	return rollout.Rollout{Plan: p}, d.end()
}

func (d drives) Advance(string, string) (rollout.Rollout, error) { return rollout.Rollout{}, d.end() }

func (d drives) Abort(string, string) (rollout.Rollout, error) { return rollout.Rollout{}, d.end() }

// audited is an Admin whose log can be read.
type audited struct {
	*server.Admin
	residents *residents
	log       bytes.Buffer
}

// readOnly is why the changes of an audited Admin end with the server.
const readOnly = "the disk is read-only"

func newAudited(t *testing.T) *audited {
	h := servertest.New(t, server.Config{})
	a := &audited{residents: &residents{house: h}}
	log := slog.New(slog.NewJSONHandler(&a.log, nil))
	a.Admin = server.NewAdmin(
		server.New(server.Config{Logger: log, Rollouts: drives{end: a.residents.end}, NotPersistedBecause: readOnly}, h,
			h), a.residents)
	return a
}

// line returns the one line that the last call left.
func (a *audited) line(t *testing.T) map[string]any {
	t.Helper()
	var line map[string]any
	if text := a.log.String(); strings.Count(text, "\n") != 1 || json.Unmarshal(a.log.Bytes(), &line) != nil {
		t.Fatalf("the log is\n%.2000s\nwant one line", text)
	}
	a.log.Reset()
	return line
}

// changes are all calls that change something, each of one model.
func (a *audited) changes(ctx context.Context) map[string]func(model string) error {
	return map[string]func(model string) error{
		"LoadVersion": func(model string) error {
			_, err := a.LoadVersion(ctx, &weftv1.LoadVersionRequest{Model: model, Version: 77})
			return err
		},
		"UnloadVersion": func(model string) error {
			_, err := a.UnloadVersion(ctx, &weftv1.UnloadVersionRequest{Model: model, Version: 77})
			return err
		},
		"SetLabel": func(model string) error {
			_, err := a.SetLabel(ctx, &weftv1.SetLabelRequest{Model: model, Label: "l77", Version: 1})
			return err
		},
		"SetTraffic": func(model string) error {
			_, err := a.SetTraffic(ctx,
				&weftv1.SetTrafficRequest{
					Model:   model,
					Traffic: &weftv1.Traffic{Split: []*weftv1.TrafficSlot{{Slot: "s77", Version: 2, Weight: 1}}},
				})
			return err
		},
		"StartRollout": func(model string) error {
			_, err := a.StartRollout(ctx,
				&weftv1.StartRolloutRequest{Rollout: &weftv1.Rollout{
					Model: model, BaselineVersion: 1,
					CandidateVersion: 2, Stages: []float64{77},
				}})
			return err
		},
		"AdvanceRollout": func(model string) error {
			_, err := a.AdvanceRollout(ctx, &weftv1.AdvanceRolloutRequest{Model: model})
			return err
		},
		"AbortRollout": func(model string) error {
			_, err := a.AbortRollout(ctx, &weftv1.AbortRolloutRequest{Model: model})
			return err
		},
	}
}
