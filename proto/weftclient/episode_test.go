package weftclient_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/proto/weftclient"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/episode"
)

// loop is an episode with the model memory of a server whose calls a test may change, and what the server keeps.
func loop(t *testing.T, o weftclient.EpisodeOptions, before func(context.Context, *catalog.Call) error,
	options ...grpc.DialOption,
) (*weftclient.Episode, *episode.Store) {
	t.Helper()
	store, listener := episode.NewStore(episode.Config{Memory: 1 << 20}), bufconn.Listen(1<<20)
	t.Cleanup(newHouse(before).serve(listener, server.Config{Episodes: store}))
	client, err := weftclient.New("passthrough:///house", over(listener), weftclient.WithDialOptions(options...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client.Episode(weftclient.Model("memory"), "e", o), store
}

// checkpoints are the options for a checkpoint after each so many steps.
func checkpoints(every int) weftclient.EpisodeOptions {
	return weftclient.EpisodeOptions{Attempt: 300 * time.Millisecond, CheckpointEvery: every}
}

func x(value int64) weftclient.Tensors {
	return weftclient.Tensors{"x": weftclient.FromSlice([]int64{value}, 1)}
}

// TestEpisode has steps refused, be late, and the episode forgotten: each step counts once.
func TestEpisode(t *testing.T) {
	for _, every := range []int{1, 5, 1000} {
		synctest.Test(t, func(t *testing.T) {
			luck := rand.New(rand.NewPCG(uint64(every), 41))
			e, store := loop(t, checkpoints(every), func(context.Context, *catalog.Call) error {
				switch luck.IntN(8) {
				case 0:
					return full(time.Millisecond)
				case 1:
					time.Sleep(400 * time.Millisecond) // its attempt is given up, and it is answered anyway
				}
				return nil
			})
			var want int64
			for i := range int64(60) {
				if luck.IntN(5) == 0 {
					time.Sleep(time.Minute) // longer than it may be idle
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				answer, err := e.Step(ctx, x(i))
				cancel()
				if err != nil {
					t.Fatalf("step %d: %v", i, err)
				}
				want = want*31 + i
				y, err := weftclient.Values[int64](answer.Outputs["y"])
				if err != nil || y[0] != want || len(answer.Outputs) != 1 {
					t.Fatalf("checkpoints after %d, step %d: %v, %v, want %d", every, i, answer.Outputs, err, want)
				}
			}
			if o := e.Outcome(); o.Episode == "" || o.Model.GetVersion() != 1 || len(o.Tables) != 1 || len(o.Tables[0]) != 16 {
				t.Errorf("what is known for a report: %+v", o)
			}
			for range 2 {
				if err := e.End(t.Context()); err != nil || len(store.Counts().Live) > 0 {
					t.Errorf("the end: %v, %v", err, store.Counts())
				}
			}
		})
	}
}

// TestEpisodeThatIsLost: without a checkpoint its caller hears of it. A recovery that is cut short is done again by the
// next step, and none is answered from half a state.
func TestEpisodeThatIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := loop(t, weftclient.EpisodeOptions{}, nil)
		if err := e.End(t.Context()); err != nil {
			t.Errorf("the end of one that has not begun: %v", err)
		}
		if _, err := e.Step(t.Context(), x(1)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		for range 2 {
			_, err := e.Step(t.Context(), x(2))
			if why, is := errors.AsType[*weftclient.Error](err); !is || why.Reason != "EPISODE_LOST" {
				t.Errorf("one that is lost: %v", err)
			}
		}

		calls, fails := 0, 0
		e, _ = loop(t, checkpoints(100), func(context.Context, *catalog.Call) error {
			if calls++; calls == fails {
				return &catalog.ModelError{Model: "memory", Version: 1, Err: errors.New("boom")}
			}
			return nil
		})
		for i := range int64(3) {
			if _, err := e.Step(t.Context(), x(i)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		fails = calls + 3
		if _, err := e.Step(t.Context(), x(7)); errorCode(err) != codes.Internal {
			t.Errorf("a recovery that fails: %v", err)
		}
		answer, err := e.Step(t.Context(), x(9))
		if err != nil {
			t.Fatal(err)
		}
		if y, err := weftclient.Values[int64](answer.Outputs["y"]); err != nil || y[0] != (0*31*31+1*31+2)*31+9 {
			t.Errorf("after it: %v, %v", y, err)
		}
	})
}

func errorCode(err error) codes.Code {
	if why, is := errors.AsType[*weftclient.Error](err); is {
		return why.Code
	}
	return codes.OK
}

// TestEpisodeOptions compares the options with what a server says that it keeps.
func TestEpisodeOptions(t *testing.T) {
	two := []*weftv1.KeptInput{{Input: "s", Output: "sn"}, {Input: "f", Window: 4}, {Input: "c", Output: "cn"}}
	for _, test := range []struct {
		state map[string]string
		kept  []*weftv1.KeptInput
		fails error
		want  string // in the error; "": none
	}{
		{state: map[string]string{"s": "sn"}, kept: two[:2]},
		{kept: two[:2]},
		{state: map[string]string{"s": "sn"}, kept: two, want: `in State, "c" with the output "cn" is missing; leave it out`},
		{state: map[string]string{"s": "cn", "c": "sn"}, kept: two, want: `"s" has the output "sn", got "cn"; "c" has`},
		{state: map[string]string{"s": "sn", "f": "y"}, kept: two[:2], want: `"f" is no input with an output that`},
		{kept: two[1:2], want: "only windows"},
		{want: "no state"},
		{state: map[string]string{"s": "sn"}, fails: status.Error(codes.PermissionDenied, "no")},
		{state: map[string]string{"s": "sn"}, fails: status.Error(codes.Unimplemented, "no")},
		{fails: status.Error(codes.PermissionDenied, "no"), want: "expected State, as pairs of state in model.yaml"},
		{state: map[string]string{"s": "sn"}, fails: status.Error(codes.Internal, "boom"), want: "boom"},
	} {
		says := func(ctx context.Context, method string, q, a any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker,
			options ...grpc.CallOption,
		) error {
			if found, is := a.(*weftv1.GetModelResponse); is {
				found.Model = &weftv1.Model{Versions: []*weftv1.ModelVersion{
					{Version: 2, State: weftv1.VersionState_VERSION_STATE_FAILED, KeptInputs: two},
					{Version: 1, State: weftv1.VersionState_VERSION_STATE_READY, KeptInputs: test.kept},
				}}
				return test.fails
			}
			return invoke(ctx, method, q, a, conn, options...)
		}
		o := weftclient.EpisodeOptions{CheckpointEvery: 1, State: test.state}
		e, _ := loop(t, o, nil, grpc.WithUnaryInterceptor(says))
		if _, err := e.Step(t.Context(), x(1)); (err == nil) != (test.want == "") ||
			err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("state %v, the server has %v, %v: %v, want %q", test.state, test.kept, test.fails, err, test.want)
		}
	}
}

// TestRefusalBeforeTheDeadline: a server that is full is not said to be slow.
func TestRefusalBeforeTheDeadline(t *testing.T) {
	for _, slow := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			e, _ := loop(t, weftclient.EpisodeOptions{}, func(ctx context.Context, _ *catalog.Call) error {
				if calls++; slow && calls == 4 {
					<-ctx.Done()
					return ctx.Err()
				}
				return full(100 * time.Millisecond)
			})
			ctx, cancel := context.WithTimeout(t.Context(), 350*time.Millisecond)
			defer cancel()
			_, err := e.Step(ctx, x(1))
			why, is := errors.AsType[*weftclient.Error](err)
			if !is || why.Reason != "QUEUE_FULL" || why.Metadata["max_queue"] != "3" || calls != 4 ||
				(why.Code == codes.DeadlineExceeded) != slow || !strings.Contains(why.Message, "queue") {
				t.Errorf("slow %v, after %d calls: %#v", slow, calls, err)
			}
		})
	}
}
