package server

import (
	"context"
	"log/slog"
	"regexp"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
)

// Residents changes which versions are served and what leads to them. Errors are those of package catalog.
type Residents interface {
	// LoadVersion makes a version of the repository resident and returns when it is ready, or why it failed.
	LoadVersion(ctx context.Context, model string, number int64) error
	// UnloadVersion returns when the version's last request has ended.
	UnloadVersion(ctx context.Context, model string, number int64) error
	// SetLabel moves a label to a ready version; 0 removes it. If the change will not outlive the server, why tells the reason.
	SetLabel(model, label string, version int64) (persisted bool, why string, err error)
	// SetTraffic replaces the traffic if its revision is the expected one; 0: whatever it is.
	SetTraffic(model string, t *catalog.Traffic, expected uint64) (*catalog.Traffic, error)
}

// Admin implements AdminService: the calls that change something. Each change that was tried leaves a line in the log.
type Admin struct {
	weftv1.UnimplementedAdminServiceServer

	server    *Server
	residents Residents
	log       *slog.Logger
}

// NewAdmin returns the calls that change what s serves.
func NewAdmin(s *Server, residents Residents) *Admin {
	return &Admin{server: s, residents: residents, log: s.log}
}

// Register adds the service, and those that only show something, to the server of the admin listener.
func (a *Admin) Register(g *grpc.Server) {
	weftv1.RegisterAdminServiceServer(g, a)
	weftv1.RegisterModelServiceServer(g, a.server)
}

// audit logs a change: who asked for what, and what it was before and afterwards.
func (a *Admin) audit(ctx context.Context, call, model string, before, after proto.Message, err error, more ...any) {
	who := "unknown"
	if p, ok := peer.FromContext(ctx); ok {
		who = p.Addr.String()
	}
	fields := append([]any{"who", who, "call", call, "model", model, "before", compact(before)}, more...)
	if err != nil {
		a.log.WarnContext(ctx, "a change was refused", append(fields, "cause", err)...)
		return
	}
	a.log.InfoContext(ctx, "changed", append(fields, "after", compact(after))...)
}

func compact(m proto.Message) string {
	text, err := protojson.MarshalOptions{}.Marshal(m)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// now returns what a model looks like; an empty one if it is gone.
func (a *Admin) now(name string) *weftv1.Model {
	if m := a.server.models.Snapshot().Model(name); m != nil {
		return modelMessage(m)
	}
	return &weftv1.Model{Name: name}
}

// LoadVersion implements weftv1.AdminServiceServer.
func (a *Admin) LoadVersion(ctx context.Context, req *weftv1.LoadVersionRequest) (*weftv1.LoadVersionResponse, error) {
	after, err := a.change(ctx, "LoadVersion", req.GetModel(), req.GetVersion(), a.residents.LoadVersion)
	if err != nil {
		return nil, err
	}
	return &weftv1.LoadVersionResponse{Model: after}, nil
}

// UnloadVersion implements weftv1.AdminServiceServer.
func (a *Admin) UnloadVersion(ctx context.Context, req *weftv1.UnloadVersionRequest) (*weftv1.UnloadVersionResponse, error) {
	after, err := a.change(ctx, "UnloadVersion", req.GetModel(), req.GetVersion(), a.residents.UnloadVersion)
	if err != nil {
		return nil, err
	}
	return &weftv1.UnloadVersionResponse{Model: after}, nil
}

// change loads or unloads a version.
func (a *Admin) change(ctx context.Context, call, model string, number int64, do func(context.Context, string, int64) error) (*weftv1.Model, error) {
	if model == "" {
		return nil, fail(ctx, &tensor.FieldError{Field: "model", Want: "the name of a model", Got: "none"}, place{})
	}
	if number < 1 {
		return nil, fail(ctx, &tensor.FieldError{Field: "version", Want: "a positive number", Got: strconv.FormatInt(number, 10)}, place{})
	}
	before := a.now(model)
	err := do(ctx, model, number)
	after := a.now(model)
	if a.audit(ctx, call, model, before, after, err, "version", number); err != nil {
		return nil, fail(ctx, err, place{model: model, version: number})
	}
	return after, nil
}

// validName is what models, versions' labels and slots may be called.
var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

const nameRule = "a letter or digit, then letters, digits, '.', '_' and '-', at most 128"

// SetLabel implements weftv1.AdminServiceServer.
func (a *Admin) SetLabel(ctx context.Context, req *weftv1.SetLabelRequest) (*weftv1.SetLabelResponse, error) {
	if _, err := a.server.model(req.GetModel()); err != nil {
		return nil, fail(ctx, err, place{})
	}
	if !validName.MatchString(req.GetLabel()) {
		return nil, fail(ctx, &tensor.FieldError{Field: "label", Want: nameRule, Got: strconv.Quote(clip(req.GetLabel()))}, place{})
	}
	if req.GetVersion() < 0 {
		return nil, fail(ctx, &tensor.FieldError{Field: "version", Want: "a positive number, or 0 to remove the label", Got: strconv.FormatInt(req.GetVersion(), 10)}, place{})
	}
	before := a.now(req.GetModel())
	persisted, why, err := a.residents.SetLabel(req.GetModel(), req.GetLabel(), req.GetVersion())
	after := a.now(req.GetModel())
	if a.audit(ctx, "SetLabel", req.GetModel(), before, after, err, "label", req.GetLabel(), "version", req.GetVersion(), "persisted", persisted); err != nil {
		return nil, fail(ctx, err, place{model: req.GetModel(), version: req.GetVersion()})
	}
	return &weftv1.SetLabelResponse{Model: after, Persisted: persisted, NotPersistedBecause: why}, nil
}

// SetTraffic implements weftv1.AdminServiceServer.
func (a *Admin) SetTraffic(ctx context.Context, req *weftv1.SetTrafficRequest) (*weftv1.SetTrafficResponse, error) {
	m, err := a.server.model(req.GetModel())
	if err != nil {
		return nil, fail(ctx, err, place{})
	}
	for i, slot := range req.GetTraffic().GetSplit() {
		if !validName.MatchString(slot.GetSlot()) {
			return nil, fail(ctx, &catalog.TrafficError{Field: "split[" + strconv.Itoa(i) + "].slot", Want: nameRule, Got: strconv.Quote(clip(slot.GetSlot()))}, place{})
		}
	}
	before := trafficMessage(m.Traffic)
	t, err := a.residents.SetTraffic(req.GetModel(), trafficOf(req.GetTraffic()), req.GetTraffic().GetRevision())
	after := trafficMessage(t)
	if a.audit(ctx, "SetTraffic", req.GetModel(), before, after, err); err != nil {
		return nil, fail(ctx, err, place{model: req.GetModel()})
	}
	return &weftv1.SetTrafficResponse{Traffic: after}, nil
}
