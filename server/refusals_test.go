package server_test

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weftserve/weft/internal/race"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/access"
	"github.com/weftserve/weft/server/protect"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/sharedsched"
)

// nonsense encodes every message as what is none.
type nonsense struct{ encoding.CodecV2 }

func (nonsense) Name() string { return "proto" }

func (nonsense) Marshal(any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer("\xff nonsense")}, nil
}

// jwt is a token that only its issuer can tell from a good one.
var jwt = strings.Join([]string{
	base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"RS256","kid":"first"}`)),
	base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"http://127.0.0.1:1","aud":"weft","sub":"bob","exp":99999999999}`)),
	base64.RawURLEncoding.EncodeToString([]byte("signed")),
}, ".")

// gone returns the issuer of jwt, which cannot be reached.
func gone(t *testing.T) *access.Issuer {
	t.Helper()
	issuer, err := access.NewIssuer(access.IssuerConfig{URL: "http://127.0.0.1:1", Audience: "weft"})
	if err != nil {
		t.Fatal(err)
	}
	return issuer
}

// TestFloodsOfRefusedCallsEnd: the connection of a caller that makes calls of one kind, again and again, which nobody
// could have answered, is ended and told so. A caller that is refused for the load of the server keeps its connection,
// and so does one that is answered as often as refused.
func TestFloodsOfRefusedCallsEnd(t *testing.T) {
	race.Skip(t, "one call at a time; the goroutines of a flood are those of server/protect")
	const calls = 1000
	type call func(*servertest.House, context.Context) error
	predict := func(q *weftv1.PredictRequest, options ...grpc.CallOption) call {
		return func(h *servertest.House, ctx context.Context) error {
			_, err := h.Predictions.Predict(ctx, q, options...)
			return err
		}
	}
	short := servertest.Observation("", 1, 2, 3, 4)
	short.Inputs["observation"].Shape[1] = 5
	large := servertest.Observation(strings.Repeat("x", 70<<10))
	full := &sharedsched.Refusal{Reason: sharedsched.RefusedQueueFull}
	elsewhere := servertest.Observation("")
	elsewhere.Model.Name = "nothing"
	as := func(token string) call {
		return func(h *servertest.House, ctx context.Context) error {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
			return predict(servertest.Observation(""))(h, ctx)
		}
	}
	nobody := servertest.NewControl(t, &access.Config{})
	poor := servertest.NewControl(t, &access.Config{
		Roles: map[string]access.Role{"pilot": {Predict: []string{"*"}}},
		Identities: []access.Entry{{
			Name: "pilot", Roles: []string{"pilot"}, Weight: 1, Quota: access.Quota{Rate: 1e-6, Burst: 1},
		}},
	})
	dark := servertest.NewControl(t, &access.Config{})
	dark.Follow(dark.Policy(), &access.Prover{Tokens: &access.Tokens{}, Issuer: gone(t)})
	for name, c := range map[string]struct {
		call    call
		code    codes.Code
		control *servertest.Control // of a server that is not open to all
		load    error               // why the model does not answer
		ends    bool
	}{
		"unknown method": {func(h *servertest.House, ctx context.Context) error {
			return h.Conn.Invoke(ctx, "/nobody/Nothing", &weftv1.ListModelsRequest{}, &weftv1.ListModelsResponse{})
		}, codes.Unimplemented, nil, nil, true},
		"unknown model":  {predict(elsewhere), codes.NotFound, nil, nil, true},
		"wrong shape":    {predict(short), codes.InvalidArgument, nil, nil, true},
		"broken message": {predict(short, grpc.ForceCodecV2(nonsense{})), codes.InvalidArgument, nil, nil, true},
		"nobody known":   {predict(servertest.Observation("")), codes.Unauthenticated, nobody, nil, true},
		"large message":  {predict(large), codes.ResourceExhausted, nil, nil, true},
		"used up": {func(h *servertest.House, ctx context.Context) error {
			err := as(servertest.Token("pilot"))(h, ctx)
			if err == nil { // the one that there is
				return as(servertest.Token("pilot"))(h, ctx)
			}
			return err
		}, codes.ResourceExhausted, poor, nil, true},
		"issuer is gone":  {as(jwt), codes.Unavailable, dark, nil, false},
		"full queue":      {predict(servertest.Observation("")), codes.ResourceExhausted, nil, full, false},
		"expired":         {predict(servertest.Observation("")), codes.DeadlineExceeded, nil, sharedsched.ErrExpired, false},
		"a fault of ours": {predict(servertest.Observation("")), codes.Internal, nil, servertest.ErrBoom, false},
		"answered":        {predict(servertest.Observation("")), codes.OK, nil, nil, false},
		"answered as often": {func(h *servertest.House, ctx context.Context) error {
			_, wrong := h.Predictions.Predict(ctx, elsewhere)
			_, err := h.Predictions.Predict(ctx, servertest.Observation(""))
			return cmp.Or(err, wrong)
		}, codes.NotFound, nil, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := protect.New(protect.Config{})
			config := server.Config{Connections: g, MaxMessageBytes: 64 << 10}
			if c.control != nil {
				config.Access = &c.control.Control
			}
			h := servertest.New(t, config)
			if c.load != nil {
				h.Run = func(context.Context, *catalog.Call) error { return c.load }
			}
			for range calls {
				err := c.call(h, t.Context())
				ended := g.Stats().Ended[protect.Refusals] > 0
				if ended != c.ends && ended {
					t.Fatal("the connection was ended")
				}
				if ended {
					return
				}
				if status.Code(err) != c.code && c.load == nil { // else some are refused unread
					t.Fatalf("%v, want %v", err, c.code)
				}
			}
			if c.ends {
				t.Errorf("%d calls were refused, and the connection goes on", calls)
			}
		})
	}
}

// TestFloodsOfRefusedMessagesEnd: so it is with the requests of a stream.
func TestFloodsOfRefusedMessagesEnd(t *testing.T) {
	for model, ends := range map[string]bool{"nothing": true, "policy": false} {
		g := protect.New(protect.Config{})
		h := servertest.New(t, server.Config{Connections: g})
		stream, err := h.Predictions.PredictStream(metadata.AppendToOutgoingContext(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		q := &weftv1.PredictStreamRequest{Request: servertest.Observation("a")}
		q.Request.Model.Name = model
		for range 1000 {
			if err = errors.Join(stream.Send(q)); err == nil {
				_, err = stream.Recv()
			}
			if err != nil || g.Stats().Ended[protect.Refusals] > 0 {
				break
			}
		}
		if ended := g.Stats().Ended[protect.Refusals] > 0; ended != ends {
			t.Errorf("%s: the connection was ended: %v, want %v (%v)", model, ended, ends, err)
		}
	}
}
