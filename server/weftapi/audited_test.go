package weftapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

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

func (r *residents) AwaitVersion(context.Context, string, int64) (bool, error) { return true, r.err }

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

// changes are the calls that change something, each with a request about a model.
var changes = map[string]string{
	"LoadVersion": `{"model": %q, "version": 77}`, "UnloadVersion": `{"model": %q, "version": 77}`,
	"SetLabel":       `{"model": %q, "label": "l77", "version": 1}`,
	"SetTraffic":     `{"model": %q, "traffic": {"split": [{"slot": "s77", "version": 2, "weight": 1}]}}`,
	"StartRollout":   `{"rollout": {"model": %q, "baselineVersion": 1, "candidateVersion": 2, "stages": [77]}}`,
	"AbortRollout":   `{"model": %q}`,
	"AdvanceRollout": `{"model": %q}`,
}

// change makes a call of an Admin, with a request in JSON.
func change(ctx context.Context, a *server.Admin, call, request string) error {
	method := reflect.ValueOf(a).MethodByName(call)
	m := reflect.New(method.Type().In(1).Elem())
	if err := protojson.Unmarshal([]byte(request), m.Interface().(proto.Message)); err != nil {
		panic(err)
	}
	err, _ := reflect.TypeAssert[error](method.Call([]reflect.Value{reflect.ValueOf(ctx), m})[1])
	return err
}
