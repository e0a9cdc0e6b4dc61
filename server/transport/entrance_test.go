package transport

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/access"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/protect"
	"github.com/weftserve/weft/sharedsched"
)

// TestNoRuleNoService: a method without a rule that says who may call it keeps the server from being put together.
func TestNoRuleNoService(t *testing.T) {
	known := grpc.ServiceDesc{
		ServiceName: "weft.v1.ModelService", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "GetModel"}},
	}
	register := func(desc grpc.ServiceDesc) (caught any) {
		defer func() { caught = recover() }()
		(&Calls{}).On(grpc.NewServer()).RegisterService(&desc, nil)
		return nil
	}
	if caught := register(known); caught != nil {
		t.Errorf("a method with a rule: %v", caught)
	}
	method := known
	method.Methods = append(method.Methods, grpc.MethodDesc{MethodName: "GetEverything"})
	stream := known
	stream.Streams = []grpc.StreamDesc{{StreamName: "GetEverything", ServerStreams: true}}
	service := known
	service.ServiceName = "example.Others"
	for what, desc := range map[string]grpc.ServiceDesc{"method": method, "stream": stream, "service": service} {
		if caught := fmt.Sprint(register(desc)); !strings.Contains(caught, "add its rule to server/access/rule.go") {
			t.Errorf("a %s without a rule: %v", what, caught)
		}
	}
}

// kept is a message that keeps how it was let in.
type kept struct{ Exchange }

func (k *kept) Take(mem.BufferSlice) error { return nil }
func (k *kept) Type() string               { return "weft.v1.PredictRequest" }
func (k *kept) Release()                   {}

func about(model string) *kept {
	return &kept{Exchange{Request: predict.Request{Model: model, Priority: sharedsched.Critical}}}
}

// noModels knows no model.
type noModels struct{ predict.Models }

func (noModels) Snapshot() *catalog.Snapshot { return &catalog.Snapshot{} }

// callBy returns the context of a call by a connection of its own, and the access control that it comes under.
func callBy(t testing.TB, token string) (*access.Control, context.Context) {
	t.Helper()
	theirs, ours := net.Pipe()
	t.Cleanup(func() {
		_ = theirs.Close()
		_ = ours.Close()
	})
	_, info, err := protect.New(protect.Config{}).Credentials(insecure.NewCredentials(), access.Keep).ServerHandshake(ours)
	if err != nil {
		t.Fatal(err)
	}
	ctx := peer.NewContext(context.Background(), &peer.Peer{Addr: ours.LocalAddr(), AuthInfo: info})
	header := metadata.MD{"user-agent": {"test"}}
	if token != "" {
		header["authorization"] = []string{"Bearer " + token}
	}
	tokens, faults := access.ParseTokens(fmt.Sprintf("a sha256:%x", sha256.Sum256([]byte("secret"))))
	if faults != nil {
		t.Fatal(faults)
	}
	var callers []access.Pattern
	for _, text := range []string{"dns:robot-*.example.org", "token:a", "anonymous"} {
		caller, err := access.ParsePattern(text)
		if err != nil {
			t.Fatal(err)
		}
		callers = append(callers, caller)
	}
	control := &access.Control{Logger: slog.New(slog.DiscardHandler)}
	control.Follow(access.NewPolicy(&access.Config{
		Roles: map[string]access.Role{"pilot": {Predict: []string{"walker", "hopper-*"}}},
		Identities: []access.Entry{{
			Name: "fleet", Callers: callers, Roles: []string{"pilot"}, Quota: access.Quota{Requests: 100, Bytes: 1 << 30},
		}},
	}, nil, time.Now()), &access.Prover{Tokens: tokens})
	return control, metadata.NewIncomingContext(ctx, header)
}

// TestAdmissionEndsWithTheCall, whatever becomes of it.
func TestAdmissionEndsWithTheCall(t *testing.T) {
	control, ctx := callBy(t, "")
	rule, err := access.RuleOf("weft.v1.PredictionService", "Predict")
	if err != nil {
		t.Fatal(err)
	}
	calls := &Calls{Control: control, Logger: slog.New(slog.DiscardHandler), Pipeline: predict.New(predict.Config{
		Explain: func(error) predict.Explanation { return predict.Explanation{} },
	}, noModels{})}
	id := control.Policy().Identify(nil)
	for model, want := range map[string]string{"walker": "", "other": "other", "panic": "failed while it handled"} {
		c := &unaryCall{
			call:   call{Calls: calls, ctx: ctx, rule: &rule, predicts: true},
			decode: func(any) error { return nil },
		}
		c.read = c.readMessage
		err := func() (err error) {
			defer func() { c.end(recover(), &err) }()
			_, err = c.serve(func(_ any, _ context.Context, read func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
				if n, _ := id.InFlight(); n != 1 {
					t.Errorf("%d requests are in", n)
				}
				if model == "panic" {
					panic(model)
				}
				k := about(model)
				err := read(k)
				if (k.By != nil) != (want == "") {
					t.Errorf("%s is admitted as of %v", model, k.By)
				}
				return nil, err
			}, nil)
			return err
		}()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", model, err, want)
		}
		if n, bytes := id.InFlight(); n != 0 || bytes != 0 {
			t.Errorf("%s: %d requests and %d bytes were not given back", model, n, bytes)
		}
	}
}
