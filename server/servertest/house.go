package servertest

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/load"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/transport"
	"github.com/weftserve/weft/sharedsched"
)

// House is a server behind an in-memory connection, with models and a scheduler that a test directs. It is its own
// Models, scheduler and Observer: what the server tells of requests can be asked for afterwards.
type House struct {
	*server.Server
	Conn        *grpc.ClientConn
	GRPC        *grpc.Server
	Predictions weftv1.PredictionServiceClient
	Catalog     weftv1.ModelServiceClient
	Memory      *Memory
	// Current is the snapshot of the models.
	Current atomic.Pointer[catalog.Snapshot]
	// Run is Models.Predict. Set it before the first request.
	Run func(context.Context, *catalog.Call) error
	// Scheduler is the state that the scheduler shows.
	Scheduler sharedsched.State

	mu     sync.Mutex
	events []predict.Event // guarded by mu
	// offered counts requests that came and did not end. Guarded by mu.
	offered map[offer]int
	unread  int // guarded by mu
	// outcomes are those reported, as model/version. Guarded by mu.
	outcomes []string
}

// New returns a house that serves until the end of the test. It checks then that every request that came has ended, as
// the Observer was told of it. The server takes a processor to be scarce always, so that calls may be refused unread.
func New(t *testing.T, config server.Config) *House {
	t.Helper()
	h := &House{Run: RunPolicy, offered: map[offer]int{}}
	h.Current.Store(PolicySnapshot())
	config.Observer = h
	config.Scarce = func() bool { return true }
	config.Logger = slog.New(slog.DiscardHandler)
	if config.Load == nil {
		config.Load = Idle
	}
	h.Memory = NewMemory(t)
	config.Memory = h.Memory
	h.Server = server.New(config, h, h)
	limit := cmp.Or(config.MaxMessageBytes, transport.DefaultMaxMessageBytes)
	h.GRPC = grpc.NewServer(append(transport.Options(limit, h.Memory),
		h.Options(insecure.NewCredentials())...)...)
	h.Register(h.GRPC)
	t.Cleanup(func() {
		for of, n := range h.offered { // the handlers have ended
			if n != 0 {
				t.Errorf("of the requests for %+v %d more came than ended", of, n)
			}
		}
	})
	h.Conn = Dial(t, h.GRPC)
	h.Predictions, h.Catalog = weftv1.NewPredictionServiceClient(h.Conn), weftv1.NewModelServiceClient(h.Conn)
	return h
}

// Begin has the server become ready with version 1 of policy. Then the others come.
func (h *House) Begin() {
	h.Current.Store(SnapshotOf(1, &catalog.Model{
		Name: "policy", Versions: []*catalog.Version{PolicyVersion(1, catalog.Ready)},
	}))
	h.ModelsChanged()
	h.Current.Store(PolicySnapshot())
	h.ModelsChanged()
}

// Idle is the load of a device that has nothing to do.
func Idle() (sharedsched.Time, []sharedsched.DeviceLoad) {
	return 0, []sharedsched.DeviceLoad{{Name: "cpu"}}
}

// AdminOptions returns the options of a server for the admin listener. The test makes, registers and dials that server.
func (h *House) AdminOptions(a *server.Admin) []grpc.ServerOption {
	return append(transport.Options(transport.DefaultMaxMessageBytes, h.Memory),
		a.Options(insecure.NewCredentials())...)
}

// Dial connects to a server, which it serves with until the end of the test. Then it closes the connection and stops
// the server, which waits for the handlers that still run.
func Dial(t *testing.T, g *grpc.Server, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	served := make(chan error, 1)
	var due, came atomic.Bool
	go func() { served <- g.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:///house", append(options,
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, request, answer any, conn *grpc.ClientConn,
			call grpc.UnaryInvoker, options ...grpc.CallOption,
		) error {
			var trailer metadata.MD
			err := call(ctx, method, request, answer, conn, append(options, grpc.Trailer(&trailer))...)
			due.Store(due.Load() || reports(method, err))
			came.Store(came.Load() || len(trailer.Get(load.TrailerKey)) == 1 || mayLose(err))
			return err
		}),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return listener.DialContext(ctx)
		}),
		grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if due.Load() && !came.Load() {
			t.Error("no answer brought a report of the load")
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		g.Stop()
		// It is stopped already where the test ends before it has begun.
		if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	})
	return conn
}

// reporting are the methods whose answers report the load.
var reporting = []string{
	"/weft.v1.PredictionService/Predict", "/inference.GRPCInferenceService/ModelInfer",
	"/tensorflow.serving.PredictionService/Predict",
}

// reports says whether a call should have brought a report of the load, unless an earlier one of its connection has.
// Calls that were refused unread bring none.
func reports(method string, err error) bool {
	unread := status.Code(err) == codes.ResourceExhausted &&
		(strings.Contains(err.Error(), "refused unread") || strings.Contains(err.Error(), "this connection"))
	return !unread && !mayLose(err) && slices.Contains(reporting, method)
}

// mayLose says whether a call may have ended on the caller's side, which has lost a report then that was under way.
func mayLose(err error) bool {
	return slices.Contains([]codes.Code{codes.Canceled, codes.DeadlineExceeded, codes.Unavailable}, status.Code(err))
}

// Snapshot implements predict.Models.
func (h *House) Snapshot() *catalog.Snapshot { return h.Current.Load() }

// Predict implements predict.Models.
func (h *House) Predict(ctx context.Context, call *catalog.Call) error { return h.Run(ctx, call) }

// State implements weftapi.SchedulerState.
func (h *House) State() sharedsched.State { return h.Scheduler }

// ErrBoom is an error that no package knows.
var ErrBoom = errors.New("boom")

// WantCode wants an error of a code whose message contains a text. The test goes on if it is another.
func WantCode(t *testing.T, err error, code codes.Code, message string) {
	t.Helper()
	if st := status.Convert(err); st.Code() != code || !strings.Contains(st.Message(), message) {
		t.Errorf("%v: %s\nwant %v: ...%s...", st.Code(), st.Message(), code, message)
	}
}

// Gated is a model whose calls wait until the test lets them go, like queued ones: the end of their context cancels
// them. It has nothing to do with predict.Gate, nor with the promotion gates of rollouts.
type Gated struct {
	Entered chan *catalog.Call
	Release chan struct{} // one element, or its closing, lets a call go
}

// NewGated returns a model that has got no call yet.
func NewGated() *Gated {
	return &Gated{Entered: make(chan *catalog.Call), Release: make(chan struct{})}
}

// Run runs a call as Models.Predict does. It blocks until the test has received the call from Entered and then lets it
// go.
func (g *Gated) Run(ctx context.Context, call *catalog.Call) error {
	select {
	case g.Entered <- call:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case <-g.Release:
		return RunPolicy(ctx, call)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// SharedMemory returns POSIX shared memory of so many bytes, and its key. It is gone at the end of the test.
func SharedMemory(t testing.TB, bytes int64) (key string, memory *os.File) {
	t.Helper()
	const folder = "/dev/shm"
	if _, err := os.Stat(folder); err != nil {
		t.Skip(err)
	}
	memory, err := os.CreateTemp(folder, "weft-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = memory.Close()
		_ = os.Remove(memory.Name())
	})
	if err := memory.Truncate(bytes); err != nil {
		t.Fatal(err)
	}
	return "/" + filepath.Base(memory.Name()), memory
}
