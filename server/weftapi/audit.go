package weftapi

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/access"
	"github.com/weftserve/weft/server/predict"
)

// maxAudited bounds the part of one message that the log gets, in bytes.
const maxAudited = 4096

// errPanicked is the cause in the log where a call never returned; another line says more.
var errPanicked = errors.New("the server failed while it made the change")

// attempt is a call that is to change something, with what its line in the log needs.
type attempt struct {
	call    string        // the name of the method
	request proto.Message // as it came
	model   string
	version int64                              // 0: the call names none
	show    func(*catalog.Model) proto.Message // the part of the model that it may change
	// goesOn reports whether the change is being made although the caller has gone; nil: it is not.
	goesOn func(*catalog.Model) bool
	lasts  bool // whether or not the server has a state directory
}

// try lets do make the change, and writes the one line of log that every call leaves, however it ends. It returns the
// error that the caller gets.
//
// The line says who asked for what, and how the model was before. Its event says how the call ended:
//   - change_made: how the model is afterwards, and whether the change outlives the server.
//   - change_detached: the caller went away, and the change goes on; how the model is by then.
//   - change_refused: the change was refused, failed or panicked, and why.
func (a Admin) try(ctx context.Context, c *attempt, do func() error) error {
	before, err := a.look(c), errPanicked // err keeps its value only if do panics
	defer func() {
		fields := []any{
			"who", address(ctx), "call", c.call, "model", predict.Clip(c.model),
			"request", compact(c.request), "before", before,
		}
		if by := access.CallerOf(ctx); by != nil {
			fields = append(fields, "identity", by.Name, "proof", by.How)
		}
		switch {
		case err == nil:
			persisted, _ := a.persisted()
			fields = append(fields, "after", a.look(c), "persisted", persisted || c.lasts)
			a.Logger.InfoContext(ctx, "change made", append([]any{"event", "change_made"}, fields...)...)
		// The caller gets an error, but the model will change: an auditor must find that.
		case a.goesOn(ctx, c, err):
			fields = append(fields, "cause", predict.Clip(err.Error()), "after", a.look(c))
			a.Logger.InfoContext(ctx, "change goes on without its caller",
				append([]any{"event", "change_detached"}, fields...)...)
		default:
			fields = append(fields, "cause", predict.Clip(err.Error()))
			a.Logger.WarnContext(ctx, "change refused", append([]any{"event", "change_refused"}, fields...)...)
		}
	}()
	if err = do(); err != nil {
		return a.Fail(ctx, err, predict.Place{Model: c.model, Version: c.version})
	}
	return nil
}

// goesOn reports whether a call ended because its caller went away, and the change is still being made.
func (a Admin) goesOn(ctx context.Context, c *attempt, err error) bool {
	// While the caller is there, or if the change failed by itself, there is nothing that could go on.
	if c.goesOn == nil || ctx.Err() == nil || !errors.Is(err, context.Cause(ctx)) {
		return false
	}
	m := a.snapshot().Model(c.model)
	return m != nil && c.goesOn(m)
}

// look describes the part of the model that the call may change, as it is now.
func (a Admin) look(c *attempt) string {
	m := a.snapshot().Model(c.model)
	if m == nil {
		return "no such model"
	}
	return compact(c.show(m))
}

// residence is the part of a model that loads, unloads and labels change: its versions, their states, and its labels.
func residence(m *catalog.Model) proto.Message {
	out := &weftv1.Model{Name: m.Name, Labels: m.Labels}
	for _, v := range m.Versions {
		out.Versions = append(out.Versions, &weftv1.ModelVersion{Version: v.Number, State: versionStates[v.State]})
	}
	return out
}

// division is the part of a model that changes of the traffic and rollouts change.
func division(m *catalog.Model) proto.Message { return trafficMessage(m.Traffic) }

// caller names the caller of a change for what is kept with it, such as the author of traffic: the address and, where
// callers are known, the identity and how it was proven.
func caller(ctx context.Context) string {
	if by := access.CallerOf(ctx); by != nil {
		return by.String() + " at " + address(ctx)
	}
	return address(ctx)
}

// address is the address of the caller's end of the connection. Behind a proxy it is that of the proxy.
func address(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok {
		return p.Addr.String()
	}
	return "unknown"
}

// compact writes a message as JSON, cut to maxAudited bytes: a log must not grow by what a caller sends.
func compact(m proto.Message) string {
	text, err := protojson.Marshal(m)
	if err != nil { // JSON cannot hold it, such as a duration of more than ten thousand years
		text = []byte(prototext.MarshalOptions{}.Format(m))
	}
	if len(text) <= maxAudited {
		return string(text)
	}
	return fmt.Sprintf("%s... (%d bytes)", strings.ToValidUTF8(string(text[:maxAudited]), ""), len(text))
}
