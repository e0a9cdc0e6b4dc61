package weftapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"net"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/durationpb"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/rollout"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/server/transport"
)

// residents is what an Admin changes: each call ends with err, or changes the house.
type residents struct {
	house  *servertest.House
	err    error
	panics bool
	by     string // who loaded or unloaded last
}

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

// readOnly is why what an audited Admin changes ends with the server.
const readOnly = "the disk is read-only"

func newAudited(t *testing.T) *audited {
	h := servertest.New(t, server.Config{}, transport.Config{})
	a := &audited{residents: &residents{house: h}}
	log := slog.New(slog.NewJSONHandler(&a.log, nil))
	a.Admin = server.NewAdmin(server.New(server.Config{Logger: log, Rollouts: drives{end: a.residents.end}, NotPersistedBecause: readOnly}, h, h), a.residents)
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
			_, err := a.SetTraffic(ctx, &weftv1.SetTrafficRequest{Model: model, Traffic: &weftv1.Traffic{Split: []*weftv1.TrafficSlot{{Slot: "s77", Version: 2, Weight: 1}}}})
			return err
		},
		"StartRollout": func(model string) error {
			_, err := a.StartRollout(ctx, &weftv1.StartRolloutRequest{Rollout: &weftv1.Rollout{Model: model, BaselineVersion: 1, CandidateVersion: 2, Stages: []float64{77}}})
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

// TestChangesAreAudited: every call leaves one line, whatever becomes of it.
func TestChangesAreAudited(t *testing.T) {
	ctx := peer.NewContext(t.Context(), &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 4567}})
	changes := (&audited{}).changes(ctx)
	if all := len(weftv1.AdminService_ServiceDesc.Methods); len(changes) != all {
		t.Errorf("%d calls are tried here; there are %d", len(changes), all)
	}
	for call := range changes {
		for outcome, want := range map[string]struct {
			model  string
			err    error
			panics bool
			before string
			cause  string // "": there is none
		}{
			"changed":          {model: "policy", before: `"policy"`},
			"refused":          {model: "policy", err: servertest.ErrBoom, before: `"policy"`, cause: "boom"},
			"panic":            {model: "policy", panics: true, before: `"policy"`, cause: "failed while it made the change"},
			"no model":         {err: servertest.ErrBoom, before: "no such model", cause: "expected the name of a model"},
			"an unknown model": {model: "nonesuch", err: fmt.Errorf("nonesuch: %w", catalog.ErrUnknown), before: "no such model", cause: "nonesuch"},
		} {
			t.Run(call+": "+outcome, func(t *testing.T) {
				a := newAudited(t)
				a.residents.err, a.residents.panics = want.err, want.panics
				err := func() (err error) {
					defer func() {
						if recover() != nil {
							err = servertest.ErrBoom
						}
					}()
					return a.changes(ctx)[call](want.model)
				}()
				if (err == nil) != (want.cause == "") {
					t.Errorf("error %v", err)
				}
				line := a.line(t)
				if strings.HasSuffix(call, "Rollout") || call == "SetTraffic" {
					want.before = strings.ReplaceAll(want.before, `"policy"`, `"default"`) // of the traffic
				}
				for key, part := range map[string]string{"who": "10.1.2.3:4567", "call": call, "model": want.model, "before": want.before, "cause": want.cause} {
					if got, _ := line[key].(string); !strings.Contains(got, part) || part == "" && got != "" {
						t.Errorf("%s: %q; want %q", key, got, part)
					}
				}
				request, _ := line["request"].(string)
				if !strings.Contains(request, want.model) || call[0] != 'A' && !strings.Contains(request, "77") {
					t.Errorf("what was asked: %q", request)
				}
				after, _ := line["after"].(string)
				if want.cause == "" && (line["msg"] != "changed" || after == "" || call == "SetTraffic" && !strings.Contains(after, "s77")) ||
					want.cause != "" && (line["msg"] != "a change was refused" || line["level"] != "WARN" || after != "") {
					t.Errorf("line %v", line)
				}
				if persisted, told := line["persisted"]; told != (want.cause == "") || told && persisted != false {
					t.Errorf("persisted: %v", persisted)
				}
			})
		}
	}
}

// changing is residents that do what they are asked to.
type changing struct{ *residents }

func (c changing) LoadVersion(_ context.Context, _ string, number int64, _ string) error {
	s := servertest.PolicySnapshot()
	s.Revision, s.Model("policy").Version(number).State = 2, catalog.Ready
	c.house.Current.Store(s)
	return nil
}

func (c changing) SetLabel(_, label string, version int64, _ string) error {
	s := servertest.PolicySnapshot()
	s.Revision, s.Model("policy").Labels = 3, map[string]int64{label: version}
	c.house.Current.Store(s)
	return nil
}

// TestAuditShowsWhatChanges: the states of versions and the labels, as they were and as they are.
func TestAuditShowsWhatChanges(t *testing.T) {
	a := newAudited(t)
	h := a.residents.house
	admin := server.NewAdmin(server.New(server.Config{Logger: slog.New(slog.NewJSONHandler(&a.log, nil))}, h, h), changing{a.residents})
	wantLine := func(call string, err error, gone, came string) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		line := a.line(t)
		before, _ := line["before"].(string)
		after, _ := line["after"].(string)
		if !strings.Contains(before, gone) || strings.Contains(after, gone) || strings.Contains(before, came) || !strings.Contains(after, came) {
			t.Errorf("%s: before %s, after %s; want %s in the one alone and %s in the other", call, before, after, gone, came)
		}
	}
	_, err := admin.SetLabel(t.Context(), &weftv1.SetLabelRequest{Model: "policy", Label: "next", Version: 2})
	wantLine("SetLabel", err, `"stable"`, `"next"`)
	_, err = admin.LoadVersion(t.Context(), &weftv1.LoadVersionRequest{Model: "policy", Version: 3})
	wantLine("LoadVersion", err, "VERSION_STATE_LOADING", `"stable"`)
}

// leaving are residents whose caller goes away, or whose server drains, while they change something.
type leaving struct {
	*residents
	leave func()
	state catalog.State // of version 1 by then
}

func (l leaving) LoadVersion(ctx context.Context, _ string, _ int64, _ string) error {
	s := servertest.PolicySnapshot()
	s.Revision, s.Model("policy").Version(1).State = 2, l.state
	l.house.Current.Store(s)
	l.leave()
	<-ctx.Done()
	return fmt.Errorf("change it: %w", context.Cause(ctx))
}

func (l leaving) UnloadVersion(ctx context.Context, model string, number int64, by string) error {
	return l.LoadVersion(ctx, model, number, by)
}

// TestAuditOfACallerWhoLeaves: what goes on without him was not refused.
func TestAuditOfACallerWhoLeaves(t *testing.T) {
	for name, want := range map[string]struct {
		state  catalog.State
		unload bool
		drains bool // the server does, and the caller waits
		goesOn bool
		code   codes.Code
	}{
		"load":                             {state: catalog.Loading, goesOn: true, code: codes.Canceled},
		"load of a server that drains":     {state: catalog.Loading, drains: true, code: codes.Unavailable},
		"unload":                           {state: catalog.Unloading, unload: true, goesOn: true, code: codes.Canceled},
		"unload that had not begun":        {state: catalog.Ready, unload: true, code: codes.Canceled},
		"unload from a server that drains": {state: catalog.Unloading, unload: true, drains: true, code: codes.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAudited(t)
			h := a.residents.house
			s := server.New(server.Config{Logger: slog.New(slog.NewJSONHandler(&a.log, nil))}, h, h)
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			if want.drains {
				leave = func() {
					if err := s.Drain(t.Context()); err != nil {
						t.Error(err)
					}
				}
			}
			admin := server.NewAdmin(s, leaving{a.residents, leave, want.state})
			var err error
			if want.unload {
				_, err = admin.UnloadVersion(ctx, &weftv1.UnloadVersionRequest{Model: "policy", Version: 1})
			} else {
				_, err = admin.LoadVersion(ctx, &weftv1.LoadVersionRequest{Model: "policy", Version: 1})
			}
			if status.Code(err) != want.code {
				t.Errorf("error %v, want %v", err, want.code)
			}
			line := a.line(t)
			message, level := "a change was refused", "WARN"
			if want.goesOn {
				message, level = "a change goes on without its caller", "INFO"
			}
			if after, _ := line["after"].(string); line["msg"] != message || line["level"] != level || line["cause"] == nil ||
				strings.Contains(after, "VERSION_STATE_"+strings.ToUpper(want.state.String())) != want.goesOn {
				t.Errorf("line %v; want %q, and what the version is by then if the change goes on", line, message)
			}
			if !want.drains {
				return
			}
			if _, err := admin.LoadVersion(ctx, &weftv1.LoadVersionRequest{Model: "policy", Version: 1}); status.Code(err) != codes.Unavailable ||
				a.line(t)["cause"] != "the server is draining" {
				t.Errorf("a new call of a server that drains: %v", err)
			}
		})
	}
}

// TestAuditIsBounded: a request is as large as a message may be, a line of the log is not.
func TestAuditIsBounded(t *testing.T) {
	a := newAudited(t)
	huge := strings.Repeat("x", 1<<20)
	slots := make([]*weftv1.TrafficSlot, 10_000)
	for i := range slots {
		slots[i] = &weftv1.TrafficSlot{Slot: "ä", Version: 1}
	}
	for name, call := range map[string]func() error{
		"a long name": func() error { return a.changes(t.Context())["LoadVersion"](huge) },
		// One of the two is cut within a character.
		"a long label": func() error {
			_, err := a.SetLabel(t.Context(), &weftv1.SetLabelRequest{Model: "policy", Label: strings.Repeat("ä", 1<<19)})
			return err
		},
		"another": func() error {
			_, err := a.SetLabel(t.Context(), &weftv1.SetLabelRequest{Model: "policy", Label: "x" + strings.Repeat("ä", 1<<19)})
			return err
		},
		"many slots": func() error {
			_, err := a.SetTraffic(t.Context(), &weftv1.SetTrafficRequest{Model: "policy", Traffic: &weftv1.Traffic{Split: slots}})
			return err
		},
	} {
		a.residents.err = fmt.Errorf("%s: %w", huge, catalog.ErrUnknown)
		if err := call(); err == nil {
			t.Errorf("%s: accepted", name)
		}
		size := a.log.Len()
		request, _ := a.line(t)["request"].(string)
		if size > 10_000 || !strings.HasSuffix(request, " bytes)") || len(request) < 4000 || strings.Contains(request, "\ufffd") {
			t.Errorf("%s: the line has %d bytes, the request ends in %q", name, size, request[max(0, len(request)-40):])
		}
	}
}

// TestAuditOfWhatJSONCannotHold: a plan is logged even if JSON has no way to write it.
func TestAuditOfWhatJSONCannotHold(t *testing.T) {
	a := newAudited(t)
	_, err := a.StartRollout(t.Context(), &weftv1.StartRolloutRequest{Rollout: &weftv1.Rollout{
		Model: "policy", CandidateVersion: 4711, StageDuration: &durationpb.Duration{Seconds: math.MaxInt64},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if request, _ := a.line(t)["request"].(string); !strings.Contains(request, "4711") {
		t.Errorf("what was asked: %q", request)
	}
}

func TestAnswersOfChanges(t *testing.T) {
	a := newAudited(t)
	set, err := a.SetTraffic(t.Context(), &weftv1.SetTrafficRequest{Model: "policy", Traffic: &weftv1.Traffic{Split: []*weftv1.TrafficSlot{{Slot: "new", Version: 2, Weight: 1}}}})
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
	start, err := a.StartRollout(t.Context(), &weftv1.StartRolloutRequest{Rollout: &weftv1.Rollout{Model: "policy", CandidateVersion: 2}})
	if err != nil || start.GetRollout().GetCandidateVersion() != 2 {
		t.Errorf("rollout: %v, %v", start, err)
	}
}

// TestChangesSayWhetherTheyLast: every answer of AdminService does, in the same way, and loads and unloads are told who wants them.
func TestChangesSayWhetherTheyLast(t *testing.T) {
	for _, because := range []string{"", readOnly} {
		h := servertest.New(t, server.Config{}, transport.Config{})
		r := &residents{house: h}
		config := server.Config{Logger: slog.New(slog.DiscardHandler), Rollouts: drives{end: r.end}, NotPersistedBecause: because}
		g := grpc.NewServer()
		server.NewAdmin(server.New(config, h, h), r).Register(g)
		conn := servertest.Dial(t, g)
		methods := weftv1.File_weft_v1_admin_service_proto.Services().ByName("AdminService").Methods()
		for i := range methods.Len() {
			m := methods.Get(i)
			request := dynamicpb.NewMessage(m.Input())
			if err := protojson.Unmarshal([]byte(requestsOfChanges[m.Name()]), request); err != nil {
				t.Fatal(m.Name(), err)
			}
			response := dynamicpb.NewMessage(m.Output())
			r.by = ""
			if err := conn.Invoke(t.Context(), "/weft.v1.AdminService/"+string(m.Name()), request, response); err != nil {
				t.Fatal(m.Name(), err)
			}
			told := func(field protoreflect.Name) any { return response.Get(m.Output().Fields().ByName(field)).Interface() }
			if told("persisted") != (because == "") || told("not_persisted_because") != because {
				t.Errorf("%s: %v; want that it lasts unless %q", m.Name(), response, because)
			}
			if strings.HasSuffix(string(m.Name()), "Version") && r.by == "" {
				t.Errorf("%s: who wants it is not told", m.Name())
			}
		}
	}
}

// requestsOfChanges is one request for each call of AdminService.
var requestsOfChanges = map[protoreflect.Name]string{
	"LoadVersion": `{"model": "policy", "version": 2}`, "UnloadVersion": `{"model": "policy", "version": 2}`,
	"SetLabel":   `{"model": "policy", "label": "stable", "version": 2}`,
	"SetTraffic": `{"model": "policy"}`, "StartRollout": `{"rollout": {"model": "policy"}}`,
	"AdvanceRollout": `{"model": "policy"}`, "AbortRollout": `{"model": "policy"}`,
}

// TestChangesOfAnUnknownModel say which there are, whoever finds out.
func TestChangesOfAnUnknownModel(t *testing.T) {
	h := servertest.New(t, server.Config{}, transport.Config{})
	admin := server.NewAdmin(h.Server, &residents{house: h, err: fmt.Errorf("load it: %w", catalog.ErrUnknown)})
	_, load := admin.LoadVersion(t.Context(), &weftv1.LoadVersionRequest{Model: "polcy", Version: 1})
	_, unload := admin.UnloadVersion(t.Context(), &weftv1.UnloadVersionRequest{Model: "polcy", Version: 1})
	for _, err := range []error{load, unload} {
		if s := status.Convert(err); s.Code() != codes.NotFound || s.Message() != `no model is named "polcy"; there is "policy"` {
			t.Error(err)
		}
	}
}

// TestErrorsOfChanges is the part of the error table that is about changes.
func TestErrorsOfChanges(t *testing.T) {
	h := servertest.New(t, server.Config{}, transport.Config{})
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
		{&catalog.LoadError{Model: "policy", Version: 3, Cause: &catalog.MemoryError{Model: "policy", Version: 3}}, codes.FailedPrecondition},
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
		if _, err := admin.SetTraffic(t.Context(), &weftv1.SetTrafficRequest{Model: "policy"}); status.Code(err) != c.code {
			t.Errorf("%v: %v, want %v", c.err, status.Code(err), c.code)
		}
	}
	for name, c := range map[string]struct {
		call func() error
		code codes.Code
	}{
		"no model": {func() error { _, err := admin.SetTraffic(t.Context(), &weftv1.SetTrafficRequest{}); return err }, codes.InvalidArgument},
		"no model for a rollout": {func() error {
			_, err := admin.StartRollout(t.Context(), &weftv1.StartRolloutRequest{})
			return err
		}, codes.InvalidArgument},
		"an unknown model": {func() error {
			_, err := admin.SetLabel(t.Context(), &weftv1.SetLabelRequest{Model: "nonesuch", Label: "x", Version: 1})
			return err
		}, codes.NotFound},
		"evil label": {func() error {
			_, err := admin.SetLabel(t.Context(), &weftv1.SetLabelRequest{Model: "policy", Label: "../x", Version: 1})
			return err
		}, codes.InvalidArgument},
		"a label for version -1": {func() error {
			_, err := admin.SetLabel(t.Context(), &weftv1.SetLabelRequest{Model: "policy", Label: "x", Version: -1})
			return err
		}, codes.InvalidArgument},
		"version 0": {func() error {
			_, err := admin.LoadVersion(t.Context(), &weftv1.LoadVersionRequest{Model: "policy"})
			return err
		}, codes.InvalidArgument},
		"unload of version 0": {func() error {
			_, err := admin.UnloadVersion(t.Context(), &weftv1.UnloadVersionRequest{Model: "policy"})
			return err
		}, codes.InvalidArgument},
		"evil slot": {func() error {
			_, err := admin.SetTraffic(t.Context(), &weftv1.SetTrafficRequest{Model: "policy", Traffic: &weftv1.Traffic{Split: []*weftv1.TrafficSlot{{Slot: "a\n", Version: 1, Weight: 1}}}})
			return err
		}, codes.InvalidArgument},
	} {
		r.err = nil
		if err := c.call(); status.Code(err) != c.code {
			t.Errorf("%s: %v, want %v", name, err, c.code)
		}
	}
}
