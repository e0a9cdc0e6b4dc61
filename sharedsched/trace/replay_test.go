package trace_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/sharedsched"
	"github.com/weftserve/weft/sharedsched/shell"
	"github.com/weftserve/weft/sharedsched/trace"
)

// flaky executes batches in times that depend on their rows, and fails some.
type flaky struct {
	mu  sync.Mutex
	rng *rand.Rand
}

func (f *flaky) Execute(b *sharedsched.Batch) sharedsched.Report {
	f.mu.Lock()
	took := time.Duration(b.Padded)*100*time.Microsecond + time.Duration(f.rng.IntN(1000))*time.Microsecond
	fails := f.rng.IntN(20) == 0
	f.mu.Unlock()
	time.Sleep(took)
	if fails {
		b.Spans[0].Err, b.Spans[0].Again = errors.New("bad input"), took > time.Millisecond
	}
	return sharedsched.Report{DeviceTime: took, Unusable: fails}
}

// record makes many callers ask a scheduler for everything that it can do, and returns the trace.
func record(t *testing.T) string {
	t.Helper()
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(1, 2))
		s, err := shell.New(sharedsched.Config{
			Devices: []sharedsched.Device{{Name: "one", Lanes: 2, Handover: time.Millisecond}, {Name: "two", Lanes: 1}},
		}, &flaky{rng: rand.New(rand.NewPCG(3, 4))}, shell.Options{Trace: &out})
		if err != nil {
			t.Fatal(err)
		}
		var versions []sharedsched.VersionID
		for i, device := range []string{"one", "one", "two"} {
			f, err := s.AddFlow(fmt.Sprint("flow ", i), device, float64(i)+0.5)
			if err != nil {
				t.Fatal(err)
			}
			set := sharedsched.Settings{
				Batched: i != 2, MaxBatchSize: 8, MaxQueue: 20, MaxRequestRows: 12,
				MaxLatency: 30 * time.Millisecond,
			}
			v, err := s.AddVersion(fmt.Sprintf("m%d/1", i), f, set)
			if err != nil {
				t.Fatal(err)
			}
			versions = append(versions, v)
		}
		s.Inherit(versions[1], versions[0], true)
		var wg sync.WaitGroup
		for range 400 {
			v := versions[rng.IntN(3)]
			task := sharedsched.Task{
				Rows: 1 + rng.IntN(14), Key: string([]byte{byte(rng.IntN(3)), 0xff}),
				Priority: sharedsched.Priority(rng.IntN(4)), Identity: []string{"", "p\xff", "q"}[rng.IntN(3)],
			}
			task.Weight = float64(len(task.Identity))
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+rng.IntN(50))*time.Millisecond)
			wg.Go(func() {
				defer cancel()
				_, _ = s.Do(ctx, v, &task) // however it ends
			})
			time.Sleep(time.Duration(rng.IntN(600)) * time.Microsecond)
		}
		if err := s.Configure(versions[0], sharedsched.Settings{MaxBatchSize: 4, MaxQueue: 10, Batched: true}); err != nil {
			t.Error(err)
		}
		wg.Wait()
		if err := s.RemoveVersion(t.Context(), versions[2]); err != nil {
			t.Error(err)
		}
		if err := s.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		s.Close()
	})
	return out.String()
}

func TestReplayDecidesTheSame(t *testing.T) {
	recorded := record(t)
	sum, err := trace.Replay(strings.NewReader(recorded))
	if err != nil {
		t.Fatal(err)
	}
	if sum.Events != strings.Count(recorded, "\n") || sum.Batches < 50 || sum.Tasks < 100 || sum.Refused < 5 ||
		sum.Dropped < 5 || !strings.Contains(recorded, `"moved":true`) || !strings.Contains(recorded, `"weight":2`) {
		t.Errorf("a trace with little in it: %+v", sum)
	}
}

// TestReplayFindsDifferences: another time of one event, another configuration, a missing event, a cut file.
func TestReplayFindsDifferences(t *testing.T) {
	recorded := record(t)
	lines := strings.SplitAfter(recorded, "\n")
	first := func(op string) int {
		for i, l := range lines {
			if strings.HasPrefix(l, `{"op":"`+op+`"`) {
				return i
			}
		}
		t.Fatalf("the trace has no %s", op)
		return 0
	}
	change := func(i int, line string) string {
		out := append([]string(nil), lines...)
		out[i] = line
		return strings.Join(out, "")
	}
	submit, settle := first("submit"), first("settle")
	measured := regexp.MustCompile(`"report":{"DeviceTime":\d+`)
	for name, changed := range map[string]string{
		"a missing task":  change(submit, ""),
		"another cost":    change(settle, measured.ReplaceAllString(lines[settle], `"report":{"DeviceTime":1`)),
		"another variant": change(0, strings.Replace(lines[0], `"LeastSlack":false`, `"LeastSlack":true`, 1)),
		"cut off":         strings.TrimSuffix(recorded, "}\n"),
		"no such lane":    change(settle, `{"op":"next","at":1,"lane":99,"out":{}}`+"\n"),
		"no settings":     lines[0] + `{"op":"addVersion","name":"m/1","out":{}}` + "\n",
		"not a trace":     "hello\n",
		"empty":           "",
	} {
		if changed == recorded {
			t.Errorf("%s: the trace was not changed", name)
		}
		if _, err := trace.Replay(strings.NewReader(changed)); err == nil {
			t.Errorf("%s: the replay found no difference", name)
		}
	}
}

// earlier is a trace as it was written before traces had memory, and while Adaptive and Padding were settings.
const earlier = `{"op":"config","config":{"Devices":[{"Name":"gpu","Class":"cuda","Lanes":1}],"MaxQueuedBytes":0,"Variant":{"LeastSlack":false,"NoConflictRule":false,"AllDemand":false,"NoWindowDrop":false,"NoAdmission":false}},"out":{}}
{"op":"addFlow","name":"a","device":"gpu","weight":1,"out":{}}
{"op":"addVersion","name":"a/1","settings":{"Batched":true,"MaxBatchSize":4,"MaxBatchCost":0,"BatchTimeout":0,"Adaptive":false,"MaxQueue":4,"MaxRequestRows":0,"AllowedBatchSizes":null,"Padding":0,"WaitWhenFull":false,"TargetLatency":0,"MaxLatency":0},"out":{}}
{"op":"submit","task":{"rows":2},"limit":9223372036854775807,"out":{"id":4294967296}}
{"op":"next","out":{"batch":{"version":0,"spans":[{"task":4294967296,"rows":2}],"padded":2,"reason":"device_idle"}}}
{"op":"observe","at":3000000,"device":"gpu","sample":{"Clock":900,"MaxClock":1500,"Idle":false,"Throttled":true,"CoTenant":0,"Expired":false},"out":{}}
{"op":"settle","at":3000000,"report":{"DeviceTime":3000000,"Unusable":false},"out":{"event":{"Version":0,"Device":"gpu","Tasks":1,"Rows":2,"Padded":2,"Reason":5,"Estimated":0,"Elapsed":3000000,"DeviceTime":3000000,"Failed":false},"acts":[{"task":4294967296,"end":"done"}]}}
{"op":"next","at":3000000,"out":{}}
{"op":"close","at":3000000,"out":{}}
`

// TestReplayReadsEarlierTraces: fields that events have gained since are left out where they are empty.
func TestReplayReadsEarlierTraces(t *testing.T) {
	sum, err := trace.Replay(strings.NewReader(earlier))
	if err != nil || sum.Tasks != 1 || sum.Batches != 1 {
		t.Errorf("%+v, %v; want a task in a batch", sum, err)
	}
	if d := sum.State.Devices[0]; !d.Throttled {
		t.Errorf("%+v, want the device as the sample has it", d)
	}
}

// TestNothingFollowsACut: a trace that goes on where it was cut was edited.
func TestNothingFollowsACut(t *testing.T) {
	for _, text := range []string{
		`{"op":"cut","out":{}}` + "\n",
		earlier + `{"op":"cut","out":{}}` + "\n" + `{"op":"close","out":{}}` + "\n",
	} {
		if _, err := trace.Replay(strings.NewReader(text)); err == nil {
			t.Errorf("the replay of %.30q... found nothing", text)
		}
	}
}
