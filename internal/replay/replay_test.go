package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/record"
	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server/rollout"
)

// doubler is a server whose model doubles, as the recorded one did, unless its fields say otherwise.
type doubler struct {
	weftv1.UnimplementedPredictionServiceServer
	wrong     float32       // added to each answer
	compute   time.Duration // claimed
	failEvery int           // one of so many requests fails; 0: none
	code      codes.Code    // of those
	columns   int64         // of its answers; 0: as many as were recorded

	mu       sync.Mutex
	requests []*weftv1.PredictRequest // guarded by mu
}

func (d *doubler) GetModelMetadata(_ context.Context,
	q *weftv1.GetModelMetadataRequest,
) (*weftv1.GetModelMetadataResponse, error) {
	if q.GetModel().GetVersion() > 2 {
		return nil, status.Error(codes.NotFound, "there are versions 1 and 2")
	}
	return &weftv1.GetModelMetadataResponse{Signature: &weftv1.Signature{Outputs: []*weftv1.TensorSpec{{
		Name:  "y",
		Dtype: weftv1.DataType_DATA_TYPE_FP32, BatchDim: new(int32(0)),
	}}}}, nil
}

func (d *doubler) Predict(_ context.Context, q *weftv1.PredictRequest) (*weftv1.PredictResponse, error) {
	d.mu.Lock()
	d.requests = append(d.requests, q)
	n := len(d.requests)
	d.mu.Unlock()
	if d.failEvery > 0 && n%d.failEvery == 0 {
		return nil, status.Error(d.code, "it does so now and then")
	}
	answer := doubled(q, d.wrong, d.compute)
	if d.columns > 0 {
		y := answer.GetOutputs()["y"]
		y.Shape, y.FloatValues = []int64{1, d.columns}, y.GetFloatValues()[:d.columns]
	}
	return answer, nil
}

func doubled(q *weftv1.PredictRequest, wrong float32, compute time.Duration) *weftv1.PredictResponse {
	y := &weftv1.Tensor{Dtype: weftv1.DataType_DATA_TYPE_FP32, Shape: []int64{1, 4}}
	for _, x := range q.GetInputs()["x"].GetFloatValues() {
		y.FloatValues = append(y.FloatValues, 2*x+wrong)
	}
	return &weftv1.PredictResponse{
		Model: &weftv1.ModelSpec{
			Name:          q.GetModel().GetName(),
			VersionChoice: &weftv1.ModelSpec_Version{Version: max(q.GetModel().GetVersion(), 1)},
		},
		Outputs:   map[string]*weftv1.Tensor{"y": y},
		RequestId: q.GetRequestId(),
		Execution: &weftv1.ExecutionInfo{
			Slot: "prod", QueueUs: 100, ComputeUs: compute.Microseconds(), DeviceUs: 50,
			Executions: 1,
		},
	}
}

func (d *doubler) serve(t *testing.T) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	weftv1.RegisterPredictionServiceServer(s, d)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		s.Stop()
		wg.Wait()
	})
	return l.Addr().String()
}

// asRecorded is how long the recorded model computed.
const asRecorded = 2 * time.Millisecond

// recordedRequest is the i-th recorded request to a model.
func recordedRequest(model string, i int) *weftv1.PredictRequest {
	q := weftest.Request(model, float32(i))
	q.RequestId, q.EpisodeId = fmt.Sprint("r", i), fmt.Sprint("e", i)
	return q
}

// recordSome records n requests to each of the models, a millisecond apart, answered by version 1.
func recordSome(t *testing.T, c record.Config, n int, models ...string) (dir string) {
	t.Helper()
	c.Dir = t.TempDir()
	w, err := record.New(c)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	for i := range n {
		for _, model := range models {
			q := recordedRequest(model, i)
			w.Record(record.Entry{At: at, Request: q, Response: doubled(q, 0, asRecorded)})
		}
		at = at.Add(time.Millisecond)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := w.Stats(); s.Written != int64(n*len(models)) {
		t.Fatalf("%+v, want all written", s)
	}
	return c.Dir
}

// asGiven is the command with its flags' defaults.
func asGiven(address string, files ...string) *Options {
	return &Options{
		Files: files, Target: address, Version: 2, Concurrency: 8, tolerances: tolerances{Tolerance: 1e-3},
		MinRequests: 100, MaxErrorRate: 0.01, MaxLatencyRatio: 1.5, MaxFailures: 0.01, MaxUncompared: 0.1,
	}
}

func runReplay(c *Options) (out, complaints string, err error) {
	var stdout, stderr bytes.Buffer
	err = Run(context.Background(), c, &stdout, &stderr)
	return stdout.String(), stderr.String(), err
}

func TestReplayVerdicts(t *testing.T) {
	tests := []struct {
		name    string
		server  *doubler
		change  func(*Options)
		verdict rollout.Verdict
		want    []string // patterns of lines
	}{
		{
			"alike", &doubler{compute: asRecorded}, nil, rollout.Promote,
			[]string{
				`^300 requests of "walker", recorded 2026-01-02 15:04:05 UTC within 299ms, were sent to version 2 at 127\.0\.0\.1:\d+ within .*, speed max$`,
				`^answered then by version 1 \(300\); now by version 2 \(300\)$`,
				`^300 answers compared, 300 agree within 0\.001$`,
				`^y +300 +0 +0 +1\.000000 +1\.000000 +100\.00 % +0$`,
				`^queue +0\.10 +0\.10 +0\.10 +0\.10 +0\.10 +0\.10$`,
				`^compute +2\.00 +2\.00 +2\.00 +2\.00 +2\.00 +2\.00$`,
				`^device +0\.05 +0\.05 +0\.05 +0\.05 +0\.05 +0\.05$`,
				`^round trip +- +- +- +\d`,
				`^OK +300 +300$`,
				`^requests +PROMOTE `,
				`^agreement +- +not looked at`,
				`^PROMOTE$`,
			},
		},
		{
			"too few", &doubler{compute: asRecorded}, func(c *Options) { c.MinRequests = 301 }, rollout.Hold,
			[]string{`^requests +HOLD `, `^HOLD$`},
		},
		{
			"slower", &doubler{compute: 2 * asRecorded}, func(c *Options) { c.Speed = 1 }, rollout.Rollback,
			[]string{`^compute +2\.00 .* +4\.00 +4\.00 +4\.00$`, `^latency +ROLLBACK `, `^ROLLBACK$`},
		},
		{
			"slower in a replay that is too quick", &doubler{compute: 2 * asRecorded}, nil, rollout.Hold,
			[]string{
				`^latency +HOLD .* came faster than they were recorded; replay them with --speed recorded`,
				`^HOLD$`,
			},
		},
		{
			"slower, which is allowed", &doubler{compute: 2 * asRecorded}, func(c *Options) { c.MaxLatencyRatio = 2.5 },
			rollout.Promote,
			[]string{`^latency +PROMOTE `, `^PROMOTE$`},
		},
		{
			"failing", &doubler{compute: asRecorded, failEvery: 10, code: codes.Internal}, nil, rollout.Rollback,
			[]string{
				`^Internal +0 +30$`, `^OK +300 +270$`, `^errors +ROLLBACK `,
				`^the first failure: .*it does so now and then`,
			},
		},
		{
			"failing, which is allowed", &doubler{compute: asRecorded, failEvery: 10, code: codes.Internal},
			func(c *Options) { c.MaxErrorRate = 0.2 }, rollout.Promote,
			[]string{`^errors +PROMOTE `, `^PROMOTE$`},
		},
		{
			"overloaded by a replay that is too quick",
			&doubler{compute: asRecorded, failEvery: 10, code: codes.ResourceExhausted}, nil, rollout.Hold,
			[]string{
				`^ResourceExhausted +0 +30$`, `^270 answers compared, 270 agree`,
				`^of 300 requests that were answered then, 30 fail now: ResourceExhausted 30$`,
				`^failures +HOLD +30 of 300 requests that were answered then failed .*ResourceExhausted 30.*; 30 of them for lack of capacity or time, .* came faster than they were recorded; replay them with --speed recorded`,
				`^HOLD$`,
			},
		},
		{
			"overloaded by the load that was recorded",
			&doubler{compute: asRecorded, failEvery: 10, code: codes.DeadlineExceeded},
			func(c *Options) { c.Speed = 1 }, rollout.Rollback,
			[]string{`^DeadlineExceeded +0 +30$`, `^failures +ROLLBACK `, `^ROLLBACK$`},
		},
		{
			"overloaded, which is allowed", &doubler{compute: asRecorded, failEvery: 10, code: codes.ResourceExhausted},
			func(c *Options) { c.MaxFailures = 0.1 }, rollout.Promote,
			[]string{`^failures +PROMOTE .* against a limit of 0\.1$`, `^PROMOTE$`},
		},
		{
			"refusing", &doubler{compute: asRecorded, failEvery: 10, code: codes.InvalidArgument}, nil,
			rollout.Rollback,
			[]string{`^InvalidArgument +0 +30$`, `^failures +ROLLBACK `, `^ROLLBACK$`},
		},
		{
			"other shapes", &doubler{compute: asRecorded, columns: 2}, nil, rollout.Hold,
			[]string{
				`^y +0 .* +300$`,
				`^compared +HOLD +300 of 300 requests could not be compared \(300 have outputs of other names, types or shapes now\): a part of 1 against a limit of 0\.1$`,
			},
		},
		{
			"other answers", &doubler{compute: asRecorded, wrong: 1}, func(c *Options) { c.MinAgreement = 0.9 },
			rollout.Rollback,
			[]string{`^300 answers compared, 0 agree within`, `^y +0 +1 +0\.125 `, `^agreement +ROLLBACK `},
		},
		{
			"other answers that are tolerated", &doubler{compute: asRecorded, wrong: 1},
			func(c *Options) { c.MinAgreement, c.Tolerance = 0.9, 0.2 }, rollout.Promote,
			[]string{`^300 answers compared, 300 agree within 0\.2$`, `^agreement +PROMOTE `},
		},
		{
			"other answers of an output that are tolerated", &doubler{compute: asRecorded, wrong: 1},
			func(c *Options) { c.MinAgreement, c.Tolerances = 0.9, map[string]float64{"y": 0.2} }, rollout.Promote,
			[]string{`^300 answers compared, 300 agree within 0\.001, y within 0\.2$`, `^agreement +PROMOTE `},
		},
	}
	dir := recordSome(t, record.Config{}, 300, "walker")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := asGiven(tt.server.serve(t), dir)
			if tt.change != nil {
				tt.change(c)
			}
			out, complaints, err := runReplay(c)
			got := rollout.Promote
			if verdict, ok := errors.AsType[*VerdictError](err); ok {
				got, err = verdict.Verdict, nil
			}
			if got != tt.verdict || err != nil {
				t.Errorf("verdict %v, error %v; want %v", got, err, tt.verdict)
			}
			for _, want := range tt.want {
				if !regexp.MustCompile("(?m)" + want).MatchString(out) {
					t.Errorf("no line matches %s", want)
				}
			}
			if t.Failed() {
				t.Logf("report:\n%s\ncomplaints:\n%s", out, complaints)
			}
		})
	}
}

func TestReplayChooses(t *testing.T) {
	dir := recordSome(t, record.Config{}, 10, "walker", "runner")
	tests := []struct {
		name   string
		change func(*Options)
		want   *weftv1.ModelSpec
	}{
		{
			"version", func(c *Options) { c.Model = "runner" },
			&weftv1.ModelSpec{Name: "runner", VersionChoice: &weftv1.ModelSpec_Version{Version: 2}},
		},
		{
			"label", func(c *Options) { c.Version, c.Label = 0, "next" },
			&weftv1.ModelSpec{Name: "walker", VersionChoice: &weftv1.ModelSpec_Label{Label: "next"}},
		},
		{"neither", func(c *Options) { c.Version, c.RecordedVersion = 0, 1 }, &weftv1.ModelSpec{Name: "walker"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := &doubler{compute: asRecorded}
			c := asGiven(d.serve(t), dir)
			tt.change(c)
			out, _, err := runReplay(c)
			if _, ok := errors.AsType[*VerdictError](err); !ok {
				t.Errorf("error %v, want HOLD", err)
			}
			if !strings.Contains(out, "10 requests of other models or versions were left out") {
				t.Errorf("what was left out is not told:\n%s", out)
			}
			if len(d.requests) != 10 {
				t.Errorf("%d requests came, want the 10 of one model", len(d.requests))
			}
			for i := range 10 {
				want := recordedRequest(tt.want.GetName(), i)
				want.Model = tt.want
				if !slices.ContainsFunc(d.requests,
					func(q *weftv1.PredictRequest) bool { return proto.Equal(q, want) }) {
					t.Errorf("%v was not sent, but %v", want, d.requests)
				}
			}
		})
	}
}

// recordAll records entries, one after the other, each with the answer that the doubler gave.
func recordAll(t *testing.T, c record.Config, all ...record.Entry) (dir string, stats record.Stats) {
	t.Helper()
	c.Dir = t.TempDir()
	w, err := record.New(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		e.Response = doubled(e.Request, 0, asRecorded)
		w.Record(e)
		weftest.Until(t, "nothing pending", func() bool { return w.Stats().Pending == 0 })
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c.Dir, w.Stats()
}

// TestReplayOfOneVersion leaves out requests that other versions answered.
func TestReplayOfOneVersion(t *testing.T) {
	var all []record.Entry
	for i := range 12 {
		all = append(all, record.Entry{
			At: time.UnixMilli(int64(i)), Version: int64(1 + i%3),
			Request: recordedRequest("walker", i),
		})
	}
	dir, _ := recordAll(t, record.Config{}, all...)
	d := &doubler{compute: asRecorded}
	c := asGiven(d.serve(t), dir)
	c.RecordedVersion = 3
	out, _, _ := runReplay(c)
	if len(d.requests) != 4 || !strings.Contains(out, "8 requests of other models or versions were left out") ||
		!strings.Contains(out, "answered then by version 3 (4)") {
		t.Errorf("%d requests came, want the 4 that version 3 answered; report:\n%s", len(d.requests), out)
	}
	for _, q := range d.requests {
		if i := q.GetInputs()["x"].GetFloatValues()[0]; int(i)%3 != 2 {
			t.Errorf("request %v came, which another version answered", i)
		}
	}
}

// TestReplaySendsAsTheyArrived, though they are recorded as they were answered.
func TestReplaySendsAsTheyArrived(t *testing.T) {
	var all []record.Entry
	for i := range 10 {
		all = append(all, record.Entry{At: time.UnixMilli(int64(100 - i)), Request: recordedRequest("walker", i)})
	}
	dir, _ := recordAll(t, record.Config{}, all...)
	d := &doubler{compute: asRecorded}
	c := asGiven(d.serve(t), dir)
	c.Concurrency = 1
	if out, _, _ := runReplay(c); len(d.requests) != 10 {
		t.Fatalf("%d requests came, want 10; report:\n%s", len(d.requests), out)
	}
	for k, q := range d.requests {
		if want := fmt.Sprint("r", 9-k); q.GetRequestId() != want {
			t.Errorf("request %d was %s, want %s", k, q.GetRequestId(), want)
		}
	}
}

// TestReplayTellsWhatIsMissing: requests that were not recorded add no load to a replay.
func TestReplayTellsWhatIsMissing(t *testing.T) {
	large := recordedRequest("walker", 0)
	large.RequestId = strings.Repeat("x", 1<<20)
	var all []record.Entry
	for i := range 200 {
		all = append(all, record.Entry{At: time.UnixMilli(int64(i)), Request: recordedRequest("walker", i)})
	}
	all[100].Request = large
	for name, tt := range map[string]struct {
		config   record.Config
		lastFile bool // alone is replayed
		want     string
		wantNot  string
	}{
		"sample": {
			config: record.Config{Sample: 0.5}, want: "the recording is a sample of 50 % of the traffic",
			wantNot: "not recorded",
		},
		"no room": {
			config: record.Config{MaxPendingBytes: 1 << 20},
			want:   "1 requests were not recorded, for lack of room", wantNot: "before the first",
		},
		"earlier files": {
			config: record.Config{MaxPendingBytes: 1 << 20, MaxFileBytes: 4096}, lastFile: true,
			want: "1 requests were not recorded before the first of these files began", wantNot: "for want",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, stats := recordAll(t, tt.config, all...)
			if tt.lastFile {
				files, err := filepath.Glob(filepath.Join(dir, "*"))
				if err != nil || len(files) < 2 {
					t.Fatal(files, err)
				}
				dir = files[len(files)-1]
			}
			if out, _, _ := runReplay(asGiven((&doubler{}).serve(t), dir)); !strings.Contains(out, tt.want) ||
				strings.Contains(out, tt.wantNot) {
				t.Errorf("%q is not told, or %q is; %+v, report:\n%s", tt.want, tt.wantNot, stats, out)
			}
		})
	}
}

func TestReplayCannot(t *testing.T) {
	address := (&doubler{}).serve(t)
	whole := recordSome(t, record.Config{}, 3, "walker")
	tests := map[string]struct {
		command *Options
		change  func(*Options)
	}{
		"was recorded with inputs: hash; only": {command: asGiven(address,
			recordSome(t, record.Config{Inputs: record.InputsHash}, 3, "walker"))},
		`no request that version 7 answered`: {
			command: asGiven(address, whole),
			change:  func(c *Options) { c.RecordedVersion = 7 },
		},
		`no request to model "runner"`: {
			command: asGiven(address, whole),
			change:  func(c *Options) { c.Model = "runner" },
		},
		"version 3: .*there are versions 1": {
			command: asGiven(address, whole),
			change:  func(c *Options) { c.Version = 3 },
		},
		"no such file": {command: asGiven(address, filepath.Join(whole, "nowhere"))},
		"--version: expected a positive number, found -1": {
			command: asGiven(address, whole),
			change:  func(c *Options) { c.Version = -1 },
		},
		"--recorded-version: .* found -2": {
			command: asGiven(address, whole),
			change:  func(c *Options) { c.RecordedVersion = -2 },
		},
		"expected at least 1, found 0": {
			command: asGiven(address, whole),
			change:  func(c *Options) { c.Concurrency = 0 },
		},
		"expected a number above 0, found 100, 0, 1.5 and": {
			command: asGiven(address, whole),
			change:  func(c *Options) { c.MaxErrorRate = 0 },
		},
		"failure-increase: expected a number": {
			command: asGiven(address, whole),
			change:  func(c *Options) { c.MaxFailures = 0 },
		},
		"--max-uncompared: .* to 1, found 2": {
			command: asGiven(address, whole),
			change:  func(c *Options) { c.MaxUncompared = 2 },
		},
		"--max-gap: .* at least 0, found -1s": {
			command: asGiven(address, whole),
			change:  func(c *Options) { c.MaxGap = -config.Duration(time.Second) },
		},
		`of at least 0, found -1`: {
			command: asGiven(address, whole),
			change:  func(c *Options) { c.Tolerance = -1 },
		},
		`tolerances: y: .* at least 0`: {
			command: asGiven(address, whole),
			change:  func(c *Options) { c.Tolerances = map[string]float64{"y": -1} },
		},
		`outputs \("y"\), found "nope"`: {
			command: asGiven(address, whole),
			change:  func(c *Options) { c.Tolerances = map[string]float64{"y": 1, "nope": 1} },
		},
		"from 0 to 1": {command: asGiven(address, whole), change: func(c *Options) { c.MinAgreement = 2 }},
	}
	for want, tt := range tests {
		if tt.change != nil {
			tt.change(tt.command)
		}
		out, _, err := runReplay(tt.command)
		if err == nil || !regexp.MustCompile(want).MatchString(err.Error()) || out != "" {
			t.Errorf("error %v, report %q; want %s and none", err, out, want)
		}
		if _, ok := errors.AsType[*VerdictError](err); ok {
			t.Errorf("%s: a failure must not be taken for a verdict", want)
		}
	}
}

// TestNoServerAnswers: the error names the flag and the value that it should have.
func TestNoServerAnswers(t *testing.T) {
	ctx, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	err := Run(ctx, asGiven("127.0.0.1:1", recordSome(t, record.Config{}, 1, "walker")), io.Discard, io.Discard)
	if err == nil || !regexp.MustCompile("--target 127.0.0.1:1: no server .* --listen address").MatchString(err.Error()) {
		t.Errorf("error %v", err)
	}
}

func TestReplayOfADamagedFile(t *testing.T) {
	dir := recordSome(t, record.Config{}, 200, "walker")
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files[0], data[:len(data)-7], 0o600); err != nil {
		t.Fatal(err)
	}
	out, complaints, err := runReplay(asGiven((&doubler{compute: asRecorded}).serve(t), dir))
	if err != nil || !strings.Contains(out, "1 of 1 files could not be read to their end") ||
		!strings.Contains(out, "199 answers compared") {
		t.Errorf("error %v, report:\n%s", err, out)
	}
	if !strings.Contains(complaints, "weftrec: left out from byte ") {
		t.Errorf("complaints %q", complaints)
	}
}

func TestReplayInterrupted(t *testing.T) {
	dir := recordSome(t, record.Config{}, 200, "walker")
	ctx, cancel := context.WithCancel(t.Context())
	d := &doubler{compute: asRecorded}
	client := &cancelling{d: d, after: 20, cancel: cancel}
	var out bytes.Buffer
	c := asGiven("nowhere", dir)
	c.Concurrency = 1
	err := c.replay(ctx, &out, &bytes.Buffer{}, client, untold{})
	if err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("error %v, want an interruption", err)
	}
	if !strings.Contains(out.String(), "19 answers compared") {
		t.Errorf("report:\n%s", out.String())
	}
}

// cancelling is a client that is interrupted during one of its requests.
type cancelling struct {
	weftv1.PredictionServiceClient
	d      *doubler
	after  int
	cancel func()
}

func (c *cancelling) GetModelMetadata(ctx context.Context, q *weftv1.GetModelMetadataRequest,
	_ ...grpc.CallOption,
) (*weftv1.GetModelMetadataResponse, error) {
	return c.d.GetModelMetadata(ctx, q)
}

func (c *cancelling) Predict(ctx context.Context, q *weftv1.PredictRequest,
	_ ...grpc.CallOption,
) (*weftv1.PredictResponse, error) {
	answer, err := c.d.Predict(ctx, q)
	if len(c.d.requests) == c.after {
		c.cancel()
	}
	return answer, err
}

// The server that records deletes old files while others are replayed.
func TestReplayWhileAFileGoes(t *testing.T) {
	kept, gone := recordSome(t, record.Config{}, 150, "walker"), recordSome(t, record.Config{}, 50, "walker")
	d := &doubler{compute: asRecorded}
	client := &asked{PredictionServiceClient: &cancelling{d: d, cancel: func() {}}, then: func() {
		files, err := filepath.Glob(filepath.Join(gone, "*"))
		if err != nil || len(files) != 1 || os.Remove(files[0]) != nil {
			t.Errorf("cannot remove %v, %v", files, err)
		}
	}}
	var out, complaints bytes.Buffer
	c := asGiven("nowhere", kept, gone)
	c.Concurrency = 1
	if err := c.replay(t.Context(), &out, &complaints, client, untold{}); err != nil {
		t.Errorf("the verdict on the other file is lost: %v", err)
	}
	if !strings.Contains(out.String(), "1 of 2 files could not be read to their end") ||
		!strings.Contains(out.String(), "150 answers compared") {
		t.Errorf("report:\n%s", out.String())
	}
	if !strings.Contains(complaints.String(), gone) ||
		!strings.Contains(complaints.String(), "deleted since the files were listed") {
		t.Errorf("complaints %q", complaints.String())
	}
}

// asked is a client that does something more when it is asked about the model.
type asked struct {
	weftv1.PredictionServiceClient
	then func()
}

func (a *asked) GetModelMetadata(ctx context.Context, q *weftv1.GetModelMetadataRequest,
	_ ...grpc.CallOption,
) (*weftv1.GetModelMetadataResponse, error) {
	a.then()
	return a.PredictionServiceClient.GetModelMetadata(ctx, q)
}

// TestTolerancesOfTheCommandLine are read as the help says.
func TestTolerancesOfTheCommandLine(t *testing.T) {
	dir := recordSome(t, record.Config{}, 100, "walker")
	address := (&doubler{compute: asRecorded, wrong: 1}).serve(t)
	for given, want := range map[string]string{
		"y=0.2":   "100 agree within 0.001, y within 0.2\n",
		"y=0":     "0 agree within 0.001, y within 0\n",
		"y=1,z=2": `expected floating point outputs ("y"), found "z"`,
		"y=x":     "--tolerances",
	} {
		var o Options
		parser, err := kong.New(&o)
		if err != nil {
			t.Fatal(err)
		}
		var out, complaints bytes.Buffer
		if _, err = parser.Parse(
			[]string{dir, "--target", address, "--version", "2", "--speed", "max", "--tolerances", given}); err == nil {
			err = Run(t.Context(), &o, &out, &complaints)
		}
		if text := out.String() + fmt.Sprint(err); !strings.Contains(text, want) {
			t.Errorf("--tolerances %s: %s\nwant %q", given, text, want)
		}
	}
}
