package weftapi_test

import (
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/rollout"
	"github.com/weftserve/weft/server/servertest"
)

func TestAnswersOfChanges(t *testing.T) {
	a := newAudited(t)
	set, err := a.SetTraffic(t.Context(),
		&weftv1.SetTrafficRequest{
			Model:   "policy",
			Traffic: &weftv1.Traffic{Split: []*weftv1.TrafficSlot{{Slot: "new", Version: 2, Weight: 1}}},
		})
	if err != nil || set.GetTraffic().GetRevision() != 9 || set.GetTraffic().GetSplit()[0].GetSlot() != "new" {
		t.Errorf("traffic: %v, %v", set, err)
	}
	label, err := a.SetLabel(t.Context(), &weftv1.SetLabelRequest{Model: "policy", Label: "stable", Version: 2})
	if err != nil || label.GetModel().GetName() != "policy" {
		t.Errorf("label: %v, %v", label, err)
	}
	load, err := a.LoadVersion(t.Context(), &weftv1.LoadVersionRequest{Model: "policy", Version: 2})
	if err != nil || len(load.GetModel().GetVersions()) != 4 || load.GetModel().GetVersions()[0].GetSignature() == nil {
		t.Errorf("load: %v, %v; want all that is known of the model", load, err)
	}
	unload, err := a.UnloadVersion(t.Context(), &weftv1.UnloadVersionRequest{Model: "policy", Version: 2})
	if err != nil || len(unload.GetModel().GetVersions()) != 4 {
		t.Errorf("unload: %v, %v", unload, err)
	}
	start, err := a.StartRollout(t.Context(),
		&weftv1.StartRolloutRequest{Rollout: &weftv1.Rollout{Model: "policy", CandidateVersion: 2}})
	if err != nil || start.GetRollout().GetCandidateVersion() != 2 {
		t.Errorf("rollout: %v, %v", start, err)
	}
}

// TestChangesSayWhetherTheyLast: every answer of AdminService does, in the same way, and loads and unloads get the name
// of the caller.
func TestChangesSayWhetherTheyLast(t *testing.T) {
	for _, because := range []string{"", readOnly} {
		h := servertest.New(t, server.Config{})
		r := &residents{house: h}
		config := server.Config{
			Logger: slog.New(slog.DiscardHandler), Rollouts: drives{end: r.end},
			NotPersistedBecause: because,
		}
		g := grpc.NewServer()
		server.NewAdmin(server.New(config, h, h), r).Register(g)
		conn := servertest.Dial(t, g)
		methods := weftv1.File_weft_v1_admin_service_proto.Services().ByName("AdminService").Methods()
		for i := range methods.Len() {
			m := methods.Get(i)
			if m.IsStreamingClient() {
				continue // an upload is in the repository, and needs no state directory
			}
			request := dynamicpb.NewMessage(m.Input())
			if err := protojson.Unmarshal(fmt.Appendf(nil, changes[string(m.Name())], "policy"), request); err != nil {
				t.Fatal(m.Name(), err)
			}
			response := dynamicpb.NewMessage(m.Output())
			r.by = ""
			if err := conn.Invoke(t.Context(), "/weft.v1.AdminService/"+string(m.Name()), request,
				response); err != nil {
				t.Fatal(m.Name(), err)
			}
			told := func(field protoreflect.Name) any {
				return response.Get(
					m.Output().Fields().ByName(field)).Interface()
			}
			if told("persisted") != (because == "") || told("not_persisted_because") != because {
				t.Errorf("%s: %v; want that it lasts unless %q", m.Name(), response, because)
			}
			if strings.HasSuffix(string(m.Name()), "Version") && r.by == "" {
				t.Errorf("%s: who wants it is not told", m.Name())
			}
		}
	}
}

// TestChangesOfAnUnknownModel say which there are, whichever layer finds out.
func TestChangesOfAnUnknownModel(t *testing.T) {
	h := servertest.New(t, server.Config{})
	admin := server.NewAdmin(h.Server, &residents{house: h, err: fmt.Errorf("load it: %w", catalog.ErrUnknown)})
	_, load := admin.LoadVersion(t.Context(), &weftv1.LoadVersionRequest{Model: "polcy", Version: 1})
	_, unload := admin.UnloadVersion(t.Context(), &weftv1.UnloadVersionRequest{Model: "polcy", Version: 1})
	for _, err := range []error{load, unload} {
		if s := status.Convert(err); s.Code() != codes.NotFound ||
			s.Message() != `no model is named "polcy"; there is "policy"` {
			t.Error(err)
		}
	}
}

// TestErrorsOfChanges is the part of the error table that is about changes.
func TestErrorsOfChanges(t *testing.T) {
	h := servertest.New(t, server.Config{})
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
		{
			&catalog.LoadError{Model: "policy", Version: 3, Cause: &catalog.MemoryError{Model: "policy", Version: 3}},
			codes.FailedPrecondition,
		},
		{&catalog.LoadError{Model: "policy", Version: 3, Cause: catalog.ErrDeviceLost}, codes.FailedPrecondition},
		{catalog.ErrUnknown, codes.NotFound},
		{catalog.ErrBusy, codes.FailedPrecondition},
		{&catalog.KeepError{Model: "policy", Cause: syscall.ENOSPC}, codes.Unavailable},
		{&rollout.PlanError{Field: "stages", Want: "w", Got: "g"}, codes.InvalidArgument},
		{&rollout.UnknownError{Model: "policy", Version: 7}, codes.NotFound},
		{&rollout.NotReadyError{Model: "policy", Version: 3, State: catalog.Loading}, codes.FailedPrecondition},
		{rollout.ErrNone, codes.NotFound},
		{rollout.ErrRunning, codes.FailedPrecondition},
		{rollout.ErrEnded, codes.FailedPrecondition},
	} {
		r.err = c.err
		if err := change(t.Context(), admin, "SetTraffic", `{"model": "policy"}`); status.Code(err) != c.code {
			t.Errorf("%v: %v, want %v", c.err, status.Code(err), c.code)
		}
	}
	r.err = nil
	for name, c := range map[string]struct {
		call, request string
		code          codes.Code
	}{
		"no model":               {"SetTraffic", `{}`, codes.InvalidArgument},
		"no model for a rollout": {"StartRollout", `{}`, codes.InvalidArgument},
		"an unknown model":       {"SetLabel", `{"model": "nonesuch", "label": "x", "version": 1}`, codes.NotFound},
		"evil label":             {"SetLabel", `{"model": "policy", "label": "../x", "version": 1}`, codes.InvalidArgument},
		"a label for version -1": {"SetLabel", `{"model": "policy", "label": "x", "version": -1}`, codes.InvalidArgument},
		"version 0":              {"LoadVersion", `{"model": "policy"}`, codes.InvalidArgument},
		"unload of version 0":    {"UnloadVersion", `{"model": "policy"}`, codes.InvalidArgument},
		"evil slot": {
			"SetTraffic", `{"model": "policy", "traffic": {"split": [{"slot": "a\n", "version": 1, "weight": 1}]}}`,
			codes.InvalidArgument,
		},
	} {
		if err := change(t.Context(), admin, c.call, c.request); status.Code(err) != c.code {
			t.Errorf("%s: %v, want %v", name, err, c.code)
		}
	}
}
