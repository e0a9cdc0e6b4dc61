package weftapi_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/servertest"
)

// TestChangesAreAudited: every call leaves one line, however it ends.
func TestChangesAreAudited(t *testing.T) {
	ctx := peer.NewContext(t.Context(), &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 4567}})
	if all := len(weftv1.AdminService_ServiceDesc.Methods); len(changes) != all {
		t.Errorf("%d calls are tried here; there are %d", len(changes), all)
	}
	for call, request := range changes {
		for outcome, want := range map[string]struct {
			model  string
			err    error
			panics bool
			before string
			cause  string // "": there is none
		}{
			"changed": {model: "policy", before: `"policy"`},
			"refused": {model: "policy", err: servertest.ErrBoom, before: `"policy"`, cause: "boom"},
			"panic": {
				model: "policy", panics: true,
				before: `"policy"`, cause: "failed while it made the change",
			},
			"no model": {
				err: servertest.ErrBoom, before: "no such model",
				cause: "expected the name of a model",
			},
			"an unknown model": {
				model: "nonesuch", err: fmt.Errorf("nonesuch: %w", catalog.ErrUnknown),
				before: "no such model", cause: "nonesuch",
			},
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
					return change(ctx, a.Admin, call, fmt.Sprintf(request, want.model))
				}()
				if (err == nil) != (want.cause == "") {
					t.Errorf("error %v", err)
				}
				line := a.line(t)
				if strings.HasSuffix(call, "Rollout") || call == "SetTraffic" {
					want.before = strings.ReplaceAll(want.before, `"policy"`, `"default"`) // of the traffic
				}
				for key, part := range map[string]string{
					"who": "10.1.2.3:4567", "call": call, "model": want.model,
					"before": want.before, "cause": want.cause,
				} {
					if got, _ := line[key].(string); !strings.Contains(got, part) || part == "" && got != "" {
						t.Errorf("%s: %q; want %q", key, got, part)
					}
				}
				request, _ := line["request"].(string)
				if !strings.Contains(request, want.model) || call[0] != 'A' && !strings.Contains(request, "77") {
					t.Errorf("what was asked: %q", request)
				}
				after, _ := line["after"].(string)
				if want.cause == "" && (line["event"] != "change_made" || after == "" || call == "SetTraffic" &&
					!strings.Contains(after, "s77")) ||
					want.cause != "" && (line["event"] != "change_refused" || line["level"] != "WARN" ||
						after != "") {
					t.Errorf("line %v", line)
				}
				if persisted, told := line["persisted"]; told != (want.cause == "") || told && persisted != false {
					t.Errorf("persisted: %v", persisted)
				}
			})
		}
	}
}

// changing is residents that make the changes they are asked for.
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
	admin := server.NewAdmin(server.New(server.Config{Logger: slog.New(slog.NewJSONHandler(&a.log, nil))}, h, h),
		changing{a.residents})
	wantLine := func(call string, err error, gone, came string) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		line := a.line(t)
		before, _ := line["before"].(string)
		after, _ := line["after"].(string)
		if !strings.Contains(before, gone) || strings.Contains(after, gone) || strings.Contains(before, came) ||
			!strings.Contains(after, came) {
			t.Errorf("%s: before %s, after %s; want %s in the one alone and %s in the other", call, before, after, gone,
				came)
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

// TestAuditOfACallerWhoLeaves: a change that goes on without the caller was not refused.
func TestAuditOfACallerWhoLeaves(t *testing.T) {
	for name, want := range map[string]struct {
		state  catalog.State
		unload bool
		drains bool // the server does, and the caller waits
		goesOn bool
		code   codes.Code
	}{
		"load":                         {state: catalog.Loading, goesOn: true, code: codes.Canceled},
		"load of a server that drains": {state: catalog.Loading, drains: true, code: codes.Unavailable},
		"unload": {
			state: catalog.Unloading, unload: true, goesOn: true,
			code: codes.Canceled,
		},
		"unload that had not begun": {state: catalog.Ready, unload: true, code: codes.Canceled},
		"unload from a server that drains": {
			state: catalog.Unloading, unload: true, drains: true,
			code: codes.Unavailable,
		},
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
			const request = `{"model": "policy", "version": 1}`
			call := map[bool]string{true: "UnloadVersion", false: "LoadVersion"}[want.unload]
			if err := change(ctx, admin, call, request); status.Code(err) != want.code {
				t.Errorf("error %v, want %v", err, want.code)
			}
			line := a.line(t)
			event, level := "change_refused", "WARN"
			if want.goesOn {
				event, level = "change_detached", "INFO"
			}
			if after, _ := line["after"].(string); line["event"] != event || line["level"] != level ||
				line["cause"] == nil ||
				strings.Contains(after, "VERSION_STATE_"+strings.ToUpper(want.state.String())) != want.goesOn {
				t.Errorf("line %v; want %q, and what the version is by then if the change goes on", line, event)
			}
			if !want.drains {
				return
			}
			if err := change(ctx, admin, "LoadVersion", request); status.Code(err) != codes.Unavailable ||
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
	slots := strings.Repeat(`{"slot": "ä", "version": 1},`, 10_000) + "{}"
	for name, c := range map[string][2]string{
		"a long name": {"LoadVersion", fmt.Sprintf(changes["LoadVersion"], huge)},
		// One of the two is cut within a character.
		"a long label": {"SetLabel", `{"model": "policy", "label": "` + strings.Repeat("ä", 1<<19) + `"}`},
		"another":      {"SetLabel", `{"model": "policy", "label": "x` + strings.Repeat("ä", 1<<19) + `"}`},
		"many slots":   {"SetTraffic", `{"model": "policy", "traffic": {"split": [` + slots + `]}}`},
	} {
		a.residents.err = fmt.Errorf("%s: %w", huge, catalog.ErrUnknown)
		if err := change(t.Context(), a.Admin, c[0], c[1]); err == nil {
			t.Errorf("%s: accepted", name)
		}
		size := a.log.Len()
		request, _ := a.line(t)["request"].(string)
		if size > 10_000 || !strings.HasSuffix(request, " bytes)") || len(request) < 4000 ||
			strings.Contains(request, "\ufffd") {
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
