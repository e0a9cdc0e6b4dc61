package server_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"
	reflectiongrpc "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/weftserve/weft/proto/gen/inference"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/servertest"
)

// statuses returns the health of the server as a whole and of each named model.
func statuses(t *testing.T, h *servertest.House, names ...string) map[string]string {
	t.Helper()
	return statusesAs(t.Context(), t, h, names...)
}

// statusesAs is statuses, with the context of the calls.
func statusesAs(ctx context.Context, t *testing.T, h *servertest.House, names ...string) map[string]string {
	t.Helper()
	client := healthgrpc.NewHealthClient(h.Conn)
	got := make(map[string]string)
	for _, name := range append(names, "") {
		resp, err := client.Check(ctx, &healthgrpc.HealthCheckRequest{Service: name})
		if err != nil {
			got[name] = status.Code(err).String()
			continue
		}
		got[name] = resp.GetStatus().String()
	}
	return got
}

func TestHealthFollowsModels(t *testing.T) {
	h := servertest.New(t, server.Config{})
	model := func(name string, states ...catalog.State) *catalog.Model {
		m := &catalog.Model{Name: name}
		for i, s := range states {
			m.Versions = append(m.Versions, &catalog.Version{Model: name, Number: int64(i + 1), State: s})
		}
		return m
	}
	const serving, not, unknown = "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"
	for i, step := range []struct {
		what     string
		snapshot *catalog.Snapshot
		want     map[string]string
	}{
		{"nothing", servertest.SnapshotOf(1), map[string]string{"": not, "a": "NotFound", "b": "NotFound"}},
		{
			"loading", servertest.SnapshotOf(2, model("a", catalog.Loading), model("b", catalog.Loading)),
			map[string]string{"": not, "a": not, "b": not},
		},
		{
			"one is ready", servertest.SnapshotOf(3, model("a", catalog.Ready), model("b", catalog.Loading)),
			map[string]string{"": not, "a": serving, "b": not},
		},
		{
			"the other failed", servertest.SnapshotOf(4, model("a", catalog.Ready), model("b", catalog.Failed)),
			map[string]string{"": serving, "a": serving, "b": not},
		},
		{"next versions", servertest.SnapshotOf(5, model("a", catalog.Ready, catalog.Loading),
			model("b", catalog.Failed, catalog.Loading)), map[string]string{"": serving, "a": serving, "b": not}},
		{
			"unloading", servertest.SnapshotOf(6, model("a", catalog.Unloading), model("b", catalog.Ready)),
			map[string]string{"": serving, "a": not, "b": serving},
		},
		{
			"one is gone", servertest.SnapshotOf(7, model("b", catalog.Ready)),
			map[string]string{"": serving, "a": unknown, "b": serving},
		},
		{
			"late news", servertest.SnapshotOf(6, model("a", catalog.Ready), model("b", catalog.Failed)),
			map[string]string{"": serving, "a": unknown, "b": serving},
		},
	} {
		h.Current.Store(step.snapshot)
		h.ModelsChanged()
		if diff := cmp.Diff(step.want, statuses(t, h, "a", "b")); diff != "" {
			t.Errorf("step %d, %s (-want +got):\n%s", i, step.what, diff)
		}
	}
	if err := h.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.ModelsChanged()
	if diff := cmp.Diff(map[string]string{"": not, "a": not, "b": not}, statuses(t, h, "a", "b")); diff != "" {
		t.Errorf("draining (-want +got):\n%s", diff)
	}
}

// TestReadinessAgrees: whether the server is ready, and each of its models, is the same by every protocol, whatever
// models there are, and while the server drains. It is not ready while no model answers.
func TestReadinessAgrees(t *testing.T) {
	rng := rand.New(rand.NewPCG(35, 22))
	h := servertest.New(t, server.Config{})
	client := inference.NewGRPCInferenceServiceClient(h.Conn)
	names := []string{"a", "b", "c"}
	anyModel := func(name string) *catalog.Model {
		m := &catalog.Model{Name: name}
		for n := range rng.IntN(3) {
			states := []catalog.State{catalog.Loading, catalog.Ready, catalog.Ready, catalog.Unloading, catalog.Failed}
			v := &catalog.Version{Model: name, Number: int64(n + 1), State: states[rng.IntN(len(states))]}
			if v.State == catalog.Ready && rng.IntN(3) == 0 {
				v.Stalled = "hangs"
			}
			m.Versions = append(m.Versions, v)
		}
		if rng.IntN(2) == 0 {
			m.Traffic = &catalog.Traffic{Split: []catalog.Slot{{Version: 1}, {Version: 2}}}
		}
		return m
	}
	said := map[string]int{}
	page := func(path string) bool {
		w := httptest.NewRecorder()
		h.Web().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
		if is := w.Code == http.StatusOK; is != strings.Contains(w.Body.String(), `"ready":true`) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
		return w.Code == http.StatusOK
	}
	check := func(what string) {
		t.Helper()
		now := statuses(t, h, names...)
		is := h.Health() == "ready"
		answer, err := client.ServerReady(t.Context(), &inference.ServerReadyRequest{})
		if err != nil || answer.GetReady() != is || (now[""] == "SERVING") != is || page("/v2/health/ready") != is {
			t.Errorf("%s: %s, %v, %v, %v", what, h.Health(), answer, err, now)
		}
		said[h.Health()]++
		answers := false
		for _, name := range names {
			serving := now[name] == "SERVING"
			answers = answers || serving
			answer, err := client.ModelReady(t.Context(), &inference.ModelReadyRequest{Name: name})
			if err != nil && status.Code(err) != codes.NotFound || answer.GetReady() != serving ||
				page("/v2/models/"+name+"/ready") != serving ||
				h.Health() != "draining" && (h.ModelHealth(name) == "ready") != serving {
				t.Errorf("%s: %s is %s and %s, and %v, %v", what, name, now[name], h.ModelHealth(name), answer, err)
			}
		}
		if is && !answers {
			t.Errorf("%s: it is ready, and no model answers", what)
		}
	}
	for step := range 100 {
		var models []*catalog.Model
		for _, name := range names {
			if rng.IntN(3) > 0 {
				models = append(models, anyModel(name))
			}
		}
		h.Current.Store(servertest.SnapshotOf(uint64(step+1), models...))
		h.ModelsChanged()
		check(fmt.Sprint("step ", step))
	}
	if err := h.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	check("draining")
	for _, state := range []string{"ready", "loading", "stalled", "unavailable", "draining"} {
		if said[state] == 0 {
			t.Errorf("it was never %s: %v", state, said)
		}
	}
}

// TestServerBeginsWithoutSlowProofs: a server is ready once each model has a version that answers, or none yet and a
// proof that takes long; one with nothing but such proofs loads.
func TestServerBeginsWithoutSlowProofs(t *testing.T) {
	in := func(name string, state catalog.State, slow bool) *catalog.Model {
		loading := func() catalog.LoadProgress { return catalog.LoadProgress{Slow: slow} }
		return &catalog.Model{Name: name, Versions: []*catalog.Version{
			{Model: name, Number: 1, State: state, Loading: loading},
		}}
	}
	answers, waits, slow := in("a", catalog.Ready, false), in("b", catalog.Loading, false), in("c", catalog.Loading, true)
	for name, c := range map[string]struct {
		models []*catalog.Model
		want   string
	}{
		"one answers":          {[]*catalog.Model{answers}, "ready"},
		"one loads":            {[]*catalog.Model{answers, waits}, "loading"},
		"one takes long":       {[]*catalog.Model{answers, slow}, "ready"},
		"one of each":          {[]*catalog.Model{answers, waits, slow}, "loading"},
		"all take long":        {[]*catalog.Model{slow}, "loading"},
		"one fails, one takes": {[]*catalog.Model{in("d", catalog.Failed, false), slow}, "loading"},
		"one fails":            {[]*catalog.Model{in("d", catalog.Failed, false)}, "unavailable"},
	} {
		h := servertest.New(t, server.Config{})
		h.Current.Store(servertest.SnapshotOf(2, c.models...))
		h.ModelsChanged()
		if got := h.Health(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestHealthOfManyModels: the list has all models that are there, however many, and none that was.
func TestHealthOfManyModels(t *testing.T) {
	h := servertest.New(t, server.Config{})
	var many []*catalog.Model
	for i := range 300 {
		name := fmt.Sprint("m", i)
		many = append(many, &catalog.Model{
			Name: name, Versions: []*catalog.Version{{Model: name, Number: 1, State: catalog.Ready}},
		})
	}
	for revision, want := range []int{300, 2} {
		h.Current.Store(servertest.SnapshotOf(uint64(revision+1), many[:want]...))
		h.ModelsChanged()
		all, err := healthgrpc.NewHealthClient(h.Conn).List(t.Context(), &healthgrpc.HealthListRequest{})
		if got := all.GetStatuses(); err != nil || len(got) != want+1 ||
			got["m0"].GetStatus() != healthgrpc.HealthCheckResponse_SERVING {
			t.Errorf("of %d models: %d, %v", want, len(got), err)
		}
	}
}

// TestHealthOfStalledModels: a model whose answering version is stalled is not SERVING, and the server is not while
// that is so of every model that is ready.
func TestHealthOfStalledModels(t *testing.T) {
	h := servertest.New(t, server.Config{})
	model := func(name string, stalled ...string) *catalog.Model {
		m := &catalog.Model{Name: name}
		for i, why := range stalled {
			v := &catalog.Version{Model: name, Number: int64(i + 1), State: catalog.Ready, Stalled: why}
			m.Versions = append(m.Versions, v)
		}
		return m
	}
	divided := model("a", "hangs", "")
	divided.Traffic = &catalog.Traffic{Split: []catalog.Slot{{Version: 1}, {Version: 2}}}
	allHang := model("a", "hangs", "hangs")
	allHang.Traffic = divided.Traffic
	failed := model("c")
	failed.Versions = append(failed.Versions, &catalog.Version{Model: "c", Number: 1, State: catalog.Failed})
	const serving, not = "SERVING", "NOT_SERVING"
	for i, step := range []struct {
		models  []*catalog.Model
		want    [3]string // of the server, a and b
		stalled bool
	}{
		{[]*catalog.Model{model("a", "hangs"), model("b", "hangs"), failed}, [3]string{not, not, not}, true},
		{[]*catalog.Model{model("a", ""), model("b", ""), failed}, [3]string{serving, serving, serving}, false},
		{[]*catalog.Model{model("a", "hangs"), model("b", ""), failed}, [3]string{serving, not, serving}, false},
		{[]*catalog.Model{model("a", "hangs"), model("b", "hangs"), failed}, [3]string{not, not, not}, true},
		{[]*catalog.Model{model("a", "hangs", ""), model("b", "hangs")}, [3]string{serving, serving, not}, false},
		{[]*catalog.Model{model("a", "", "hangs"), model("b", "hangs")}, [3]string{not, not, not}, true},
		{[]*catalog.Model{divided, model("b", "hangs")}, [3]string{serving, serving, not}, false},
		{[]*catalog.Model{allHang, model("b", "hangs")}, [3]string{not, not, not}, true},
	} {
		h.Current.Store(servertest.SnapshotOf(uint64(i+1), step.models...))
		h.ModelsChanged()
		got := statuses(t, h, "a", "b")
		if [3]string{got[""], got["a"], got["b"]} != step.want || (h.Health() == "stalled") != step.stalled {
			t.Errorf("step %d: %v, %s; want %v, stalled: %t", i, got, h.Health(), step.want, step.stalled)
		}
	}
}

func TestDrainWaitsForRequests(t *testing.T) {
	h := servertest.New(t, server.Config{})
	gate := servertest.NewGated()
	h.Run = gate.Run
	answered := make(chan error, 1)
	go func() {
		_, err := h.Predictions.Predict(t.Context(), servertest.Observation(""))
		answered <- err
	}()
	<-gate.Entered
	late := errors.New("drained for too long")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(late)
	if err := h.Drain(ctx); !errors.Is(err, late) {
		t.Errorf("drain with a request in flight: %v", err)
	}
	_, err := h.Predictions.Predict(t.Context(), servertest.Observation(""))
	servertest.WantCode(t, err, codes.Unavailable, "draining")
	stream := h.OpenStream(t.Context(), t)
	_, err = stream.RPC.Recv()
	servertest.WantCode(t, err, codes.Unavailable, "draining")

	close(gate.Release)
	if err := h.Drain(t.Context()); err != nil {
		t.Errorf("second drain: %v", err)
	}
	if err := <-answered; err != nil {
		t.Errorf("the accepted request: %v", err)
	}
	if err := h.Drain(t.Context()); err != nil {
		t.Errorf("third drain: %v", err)
	}
}

func TestServerFull(t *testing.T) {
	h := servertest.New(t, server.Config{MaxConcurrentRequests: 2})
	gate := servertest.NewGated()
	h.Run = gate.Run
	answered := make(chan error, 1)
	go func() {
		_, err := h.Predictions.Predict(t.Context(), servertest.Observation(""))
		answered <- err
	}()
	s := h.OpenStream(t.Context(), t)
	s.Request("a")
	<-gate.Entered
	<-gate.Entered
	_, err := h.Predictions.Predict(t.Context(), servertest.Observation(""))
	servertest.WantCode(t, err, codes.ResourceExhausted, "maximum of 2 concurrent requests")
	s.Request("b")
	s.Want("b: ResourceExhausted the server has its maximum of 2 concurrent requests; try again, or raise " +
		"--max-concurrent-requests")
	h.SetMaxConcurrentRequests(1)
	_, err = h.Predictions.Predict(t.Context(), servertest.Observation(""))
	servertest.WantCode(t, err, codes.ResourceExhausted, "maximum of 1 concurrent requests")
	h.SetMaxConcurrentRequests(3)
	s.Request("c")
	<-gate.Entered
	close(gate.Release)
	s.Want("a: version 2", "c: version 2")
	if err := <-answered; err != nil {
		t.Error(err)
	}
	s.End()
}

func TestServerHasRoomAgain(t *testing.T) {
	h := servertest.New(t, server.Config{MaxConcurrentRequests: 1})
	for range 3 {
		if _, err := h.Predictions.Predict(t.Context(), servertest.Observation("")); err != nil {
			t.Fatal(err)
		}
		bad := servertest.Observation("")
		bad.Inputs = nil
		_, err := h.Predictions.Predict(t.Context(), bad)
		servertest.WantCode(t, err, codes.InvalidArgument, "observation")
	}
}

func TestMessageLimit(t *testing.T) {
	h := servertest.New(t, server.Config{MaxMessageBytes: 1024})
	_, err := h.Predictions.Predict(t.Context(), servertest.Observation("", make([]float32, 1024)...))
	servertest.WantCode(t, err, codes.ResourceExhausted, "--max-message-bytes")
}

// TestAnswerLimit: an answer as large as a message may be is sent, one of a byte more is an error, on a stream too.
func TestAnswerLimit(t *testing.T) {
	var size [2]int // of the answer to Predict, and on a stream
	probe := servertest.New(t, server.Config{})
	resp, err := probe.Predictions.Predict(t.Context(), servertest.Observation("a"))
	if err != nil {
		t.Fatal(err)
	}
	size[0] = proto.Size(resp)
	size[1] = proto.Size(&weftv1.PredictStreamResponse{
		RequestId: "a",
		Result:    &weftv1.PredictStreamResponse_Response{Response: resp},
	})

	h := servertest.New(t, server.Config{MaxMessageBytes: size[0]})
	if _, err := h.Predictions.Predict(t.Context(), servertest.Observation("a")); err != nil {
		t.Error(err)
	}
	_, err = h.Predictions.Predict(t.Context(), servertest.Observation("ab"))
	servertest.WantCode(t, err, codes.ResourceExhausted,
		fmt.Sprintf("the answer takes %d bytes, of at most %d", size[0]+1, size[0]))

	h = servertest.New(t, server.Config{MaxMessageBytes: size[1] - 1})
	s := h.OpenStream(t.Context(), t)
	s.Request("a")
	s.Want(fmt.Sprintf("a: ResourceExhausted the answer takes %d bytes, of at most %d; ask for fewer outputs or rows, "+
		"or raise --max-message-bytes", size[1], size[1]-1))
	s.Request("")
	s.Want(": InvalidArgument request_id: expected an id, because answers on a stream come in any order, got none")
	small := servertest.Observation("a")
	small.Outputs = []string{"value"}
	s.Send(&weftv1.PredictStreamRequest{Request: small})
	s.Want("a: version 2")
	s.End()
}

// TestWatchersDoNotHoldUpTheStop: they get NOT_SERVING, and their call ends.
func TestWatchersDoNotHoldUpTheStop(t *testing.T) {
	h := servertest.New(t, server.Config{})
	h.Current.Store(servertest.SnapshotOf(1,
		&catalog.Model{Name: "policy", Versions: []*catalog.Version{servertest.PolicyVersion(1, catalog.Ready)}}))
	h.ModelsChanged()
	watch, err := healthgrpc.NewHealthClient(h.Conn).Watch(t.Context(), &healthgrpc.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := watch.Recv(); err != nil || resp.GetStatus() != healthgrpc.HealthCheckResponse_SERVING {
		t.Fatalf("status %v, %v", resp, err)
	}
	stopped, asked := make(chan error, 1), make(chan struct{})
	go func() {
		err := h.Drain(t.Context())
		<-asked
		h.GRPC.GracefulStop()
		stopped <- err
	}()
	if resp, err := watch.Recv(); err != nil || resp.GetStatus() != healthgrpc.HealthCheckResponse_NOT_SERVING {
		t.Errorf("status %v, %v while draining", resp, err)
	}
	// Who is told that the server does not serve may rely on it.
	_, err = h.Predictions.Predict(t.Context(), servertest.Observation(""))
	servertest.WantCode(t, err, codes.Unavailable, "draining")
	close(asked)
	select {
	case err := <-stopped:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the stop waits for the watcher")
	}
	_, err = watch.Recv()
	servertest.WantCode(t, err, codes.Unavailable, "draining")
}

func TestReflection(t *testing.T) {
	h := servertest.New(t, server.Config{})
	stream, err := reflectiongrpc.NewServerReflectionClient(h.Conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	list := &reflectiongrpc.ServerReflectionRequest_ListServices{}
	if err := stream.Send(&reflectiongrpc.ServerReflectionRequest{MessageRequest: list}); err != nil {
		t.Fatal(err)
	}
	resp, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range resp.GetListServicesResponse().GetService() {
		names = append(names, s.GetName())
	}
	want := []string{
		"grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection",
		"inference.GRPCInferenceService", "tensorflow.serving.ModelService", "tensorflow.serving.PredictionService",
		"weft.v1.ModelService", "weft.v1.PredictionService",
	}
	if diff := cmp.Diff(want, names, cmpopts.SortSlices(func(a, b string) bool { return a < b })); diff != "" {
		t.Errorf("services (-want +got):\n%s", diff)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
