package server_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/rollout"
)

// residents is what an Admin changes: each call ends with err, or changes the house.
type residents struct {
	house *house
	err   error
}

func (r *residents) LoadVersion(context.Context, string, int64) error   { return r.err }
func (r *residents) UnloadVersion(context.Context, string, int64) error { return r.err }

func (r *residents) SetLabel(string, string, int64) (persisted bool, why string, err error) {
	return false, "the manifest is read-only", r.err
}

func (r *residents) SetTraffic(_ string, t *catalog.Traffic, _ uint64) (*catalog.Traffic, error) {
	if r.err != nil {
		return nil, r.err
	}
	t.Revision = 9
	r.house.divide(t)
	return t, nil
}

func TestChangesAreAudited(t *testing.T) {
	var lines bytes.Buffer
	h := newHouse(t, server.Config{}, server.Transport{})
	r := &residents{house: h}
	edge := server.New(server.Config{Logger: slog.New(slog.NewTextHandler(&lines, nil))}, h, h)
	admin := server.NewAdmin(edge, r)
	set := &weftv1.SetTrafficRequest{Model: "policy", Traffic: &weftv1.Traffic{Split: []*weftv1.TrafficSlot{{Slot: "new", Version: 2, Weight: 1}}}}
	changed, err := admin.SetTraffic(t.Context(), set)
	if err != nil || changed.GetTraffic().GetRevision() != 9 {
		t.Fatalf("%v, %v", changed, err)
	}
	line := lines.String()
	for _, want := range []string{"msg=changed", "who=", "call=SetTraffic", "model=policy", "before=", "after=", "new"} {
		if !strings.Contains(line, want) {
			t.Errorf("the line lacks %q: %s", want, line)
		}
	}
	lines.Reset()
	label, err := admin.SetLabel(t.Context(), &weftv1.SetLabelRequest{Model: "policy", Label: "stable", Version: 2})
	if err != nil || label.GetPersisted() || label.GetNotPersistedBecause() == "" || !strings.Contains(lines.String(), "call=SetLabel") {
		t.Errorf("%v, %v; %s", label, err, lines.String())
	}
	lines.Reset()
	r.err = &catalog.InUseError{Model: "policy", Version: 1, By: []string{`label "stable"`}}
	if _, err := admin.UnloadVersion(t.Context(), &weftv1.UnloadVersionRequest{Model: "policy", Version: 1}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("unload: %v", err)
	}
	if line := lines.String(); !strings.Contains(line, "a change was refused") || !strings.Contains(line, "stable") {
		t.Errorf("the refusal left %q", line)
	}
}

// TestErrorsOfChanges is the part of the error table that is about changes.
func TestErrorsOfChanges(t *testing.T) {
	h := newHouse(t, server.Config{}, server.Transport{})
	r := &residents{house: h}
	admin := server.NewAdmin(h.Server, r)
	for _, c := range []struct {
		err  error
		code codes.Code
	}{
		{&catalog.TrafficError{Field: "split", Want: "w", Got: "g"}, codes.InvalidArgument},
		{&catalog.RevisionError{Model: "policy", Current: 2, Expected: 1}, codes.Aborted},
		{&catalog.NotReadyError{Model: "policy", Version: 3, State: catalog.Loading}, codes.FailedPrecondition},
		{&catalog.NotReadyError{Model: "policy", Version: 7}, codes.NotFound},
		{&catalog.MemoryError{Model: "policy", Version: 3}, codes.FailedPrecondition},
		{catalog.ErrUnknown, codes.NotFound},
		{catalog.ErrBusy, codes.FailedPrecondition},
		{&rollout.PlanError{Field: "stages", Want: "w", Got: "g"}, codes.InvalidArgument},
		{&rollout.UnknownError{Model: "policy", Version: 7}, codes.NotFound},
		{&rollout.NotReadyError{Model: "policy", Version: 3, State: catalog.Loading}, codes.FailedPrecondition},
		{rollout.ErrNone, codes.NotFound},
		{rollout.ErrRunning, codes.FailedPrecondition},
		{rollout.ErrEnded, codes.FailedPrecondition},
	} {
		r.err = c.err
		if _, err := admin.SetTraffic(t.Context(), &weftv1.SetTrafficRequest{Model: "policy"}); status.Code(err) != c.code {
			t.Errorf("%v: %v, want %v", c.err, status.Code(err), c.code)
		}
	}
	for name, call := range map[string]func() error{
		"no model": func() error { _, err := admin.SetTraffic(t.Context(), &weftv1.SetTrafficRequest{}); return err },
		"evil label": func() error {
			_, err := admin.SetLabel(t.Context(), &weftv1.SetLabelRequest{Model: "policy", Label: "../x", Version: 1})
			return err
		},
		"version 0": func() error {
			_, err := admin.LoadVersion(t.Context(), &weftv1.LoadVersionRequest{Model: "policy"})
			return err
		},
		"evil slot": func() error {
			_, err := admin.SetTraffic(t.Context(), &weftv1.SetTrafficRequest{Model: "policy", Traffic: &weftv1.Traffic{Split: []*weftv1.TrafficSlot{{Slot: "a\n", Version: 1, Weight: 1}}}})
			return err
		},
	} {
		r.err = nil
		if err := call(); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v, want InvalidArgument", name, err)
		}
	}
}
