package activity_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/internal/race"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server/activity"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/sharedsched"
)

// Each seed is a workload, on one lane and on two.
func eachSeed(t *testing.T, check func(t *testing.T, h *house, seed uint64)) {
	t.Helper()
	for seed := range map[bool]uint64{false: 6, true: 2}[race.Enabled] {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { check(t, newHouse(t, 1+int(seed%2)), seed) })
		})
	}
}

// A viewer that keeps up sees each batch and each request once, and the totals of versions are their sums.
func TestViewersSeeEverythingOnce(t *testing.T) {
	eachSeed(t, func(t *testing.T, h *house, seed uint64) {
		ctx, cancel := context.WithCancel(t.Context())
		var frames []*activity.Frame
		over := make(chan struct{})
		go func() {
			defer close(over)
			h.log.Follow(ctx, time.Minute, nil, func(f *activity.Frame) bool {
				frames = append(frames, f)
				return true
			})
		}()
		h.load(ctx, seed, 3*time.Second)
		time.Sleep(time.Second) // two frames at least
		cancel()
		<-over
		time.Sleep(time.Second) // the goroutine that makes frames ends

		batches, requests := map[uint32]bool{}, map[uint32]bool{}
		var device, rows float64
		ends := map[weftv1.RequestEnd]float64{}
		var now float64
		for _, f := range frames {
			if f.GetFromMs() < now-0.001 {
				t.Fatalf("a frame begins at %v ms, the one before it ended at %v", f.GetFromMs(), now)
			}
			now = f.GetNowMs()
			for i, n := range f.GetBatches().GetNumber() {
				if batches[n] {
					t.Errorf("batch %d came twice", n)
				}
				batches[n] = true
				device += float64(f.GetBatches().GetDeviceMs()[i])
				rows += float64(f.GetBatches().GetRows()[i])
			}
			for i, n := range f.GetRequests().GetNumber() {
				if requests[n] {
					t.Errorf("request %d came twice", n)
				}
				requests[n] = true
				ends[weftv1.RequestEnd(f.GetRequests().GetEnd()[i])]++
			}
		}
		last := frames[len(frames)-1]
		var busy, totalRows, late float64
		for _, v := range last.GetVersions() {
			busy += v.GetTotals().GetBusySeconds()
			totalRows += v.GetTotals().GetRows()
			late += v.GetTotals().GetLate()
		}
		if math.Abs(device/1e3-busy) > busy/1e4 || math.Abs(last.GetDevices()[0].GetBusySeconds()-busy) > 1e-9 {
			t.Errorf("batches took %v s, versions used %v s, the device was used for %v s", device/1e3, busy,
				last.GetDevices()[0].GetBusySeconds())
		}
		if rows != totalRows || len(requests) != len(h.events) || late != ends[weftv1.RequestEnd_REQUEST_END_LATE] {
			t.Errorf("%v of %v rows, %d of %d requests, %v of %v late ones", rows, totalRows, len(requests), len(h.events),
				ends[weftv1.RequestEnd_REQUEST_END_LATE], late)
		}
		for n := range uint32(len(batches)) {
			if !batches[n+1] {
				t.Errorf("batch %d of %d is missing", n+1, len(batches))
			}
		}
		if len(ends) < 3 {
			t.Errorf("requests ended in %d ways only: %v", len(ends), ends)
		}
	})
}

// The part of the device that is shown of versions is the part that was used.
func TestSharesSumUp(t *testing.T) {
	eachSeed(t, func(t *testing.T, h *house, seed uint64) {
		go h.load(t.Context(), seed, 12*time.Second)
		time.Sleep(11 * time.Second)
		a := h.once(t)
		var share, entitled float64
		for _, v := range a.GetVersions() {
			share += v.GetShare()
			entitled += v.GetEntitledShare()
		}
		if d := a.GetDevices()[0]; math.Abs(share-d.GetBusyShare()) > 0.01*share || share < 0.3 || share > 1.02 {
			t.Errorf("the versions used %v of the device, which was busy for %v", share, d.GetBusyShare())
		}
		if math.Abs(entitled-1) > 1e-3 {
			t.Errorf("the versions are entitled to %v of the device", entitled)
		}
		time.Sleep(3 * time.Second)
	})
}

// Nothing is due to a version if the only requests that wait for it are copies for a shadow.
func TestBackgroundIsDueNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 1)
		time.Sleep(time.Second)
		for range 2 { // one of them waits
			go h.ask(t.Context(), h.kinds[2], "page", 32, 0)
		}
		time.Sleep(time.Millisecond)
		go func() {
			_, _ = h.sched.Do(t.Context(), h.kinds[1].id, &sharedsched.Task{Rows: 1, Priority: sharedsched.Sheddable})
		}()
		time.Sleep(time.Millisecond)
		for _, v := range h.once(t).GetVersions() {
			if want := map[bool]float64{true: 1}[v.GetModel() == "rank"]; v.GetEntitledShare() != want {
				t.Errorf("%s v%d is entitled to %v, want %v", v.GetModel(), v.GetVersion(), v.GetEntitledShare(), want)
			}
		}
	})
}

// once returns one Activity.
func (h *house) once(t *testing.T) (a *weftv1.Activity) {
	t.Helper()
	h.log.Follow(t.Context(), 0, nil, func(f *activity.Frame) bool {
		a = f.Activity
		return false
	})
	time.Sleep(time.Second) // the goroutine that makes frames ends
	return a
}

// traceEvent is an event of a trace.
type traceEvent struct {
	Ph, Name, Cat, ID string
	Pid, Tid          int
	TS, Dur           float64
	Args              map[string]any
}

// A trace is what Chrome's format asks for: slices of a thread do not overlap, and each that begins ends.
func TestTrace(t *testing.T) {
	eachSeed(t, func(t *testing.T, h *house, seed uint64) {
		h.load(t.Context(), seed, 2*time.Second)
		h.ask(t.Context(), h.kinds[0], "a \"name\"\n\x80", 1, 0)
		var written bytes.Buffer
		if err := h.log.WriteTrace(&written, time.Minute); err != nil {
			t.Fatal(err)
		}
		var trace struct{ TraceEvents []traceEvent }
		if err := json.Unmarshal(written.Bytes(), &trace); err != nil {
			t.Fatal(err)
		}
		ends := map[[2]int]float64{}
		open := map[string]float64{}
		device, spans := 0.0, map[string]map[string]float64{}
		for _, e := range trace.TraceEvents {
			lane, id := [2]int{e.Pid, e.Tid}, fmt.Sprint(e.Pid, e.ID, e.Name)
			switch e.Ph {
			case "X":
				if e.TS < ends[lane]-1e-6 {
					t.Errorf("batch %v begins at %v us, when another ends at %v us", e.Args["batch"], e.TS, ends[lane])
				}
				ends[lane] = e.TS + e.Dur
				device += e.Args["device_ms"].(float64)
			case "b":
				open[id] = e.TS
			case "e":
				if spans[e.ID] == nil {
					spans[e.ID] = map[string]float64{}
				}
				spans[e.ID][e.Name] = e.TS - open[id]
				delete(open, id)
			}
		}
		if len(open) > 0 {
			t.Errorf("%d spans do not end", len(open))
		}
		for _, e := range h.events {
			got, o := spans[strconv.FormatUint(e.Number, 10)], e.Execution.Outcome
			want := map[string]time.Duration{"request": e.Ended.Sub(e.Arrived)}
			if o.Executions > 0 {
				want["wait"], want["run"] = o.Queue, o.Compute
			}
			if len(got) != len(want) {
				t.Errorf("request %d has the spans %v, want %v", e.Number, got, want)
			}
			for name, took := range want {
				if math.Abs(got[name]-float64(took)/1e3) > 0.01 {
					t.Errorf("request %d: %s took %v us, want %v", e.Number, name, got[name], took)
				}
			}
		}
		if busy := h.once(t).GetDevices()[0].GetBusySeconds(); math.Abs(device/1e3-busy) > busy/100 {
			t.Errorf("the slices took %v s of the device, which was busy for %v s", device/1e3, busy)
		}
	})
}

// Every request that was late or not answered can be explained, and the times of a story are the measured ones.
func TestEveryTroubledRequestIsExplained(t *testing.T) {
	eachSeed(t, func(t *testing.T, h *house, seed uint64) {
		h.load(t.Context(), seed, 2*time.Second)
		list := h.log.Requests("", 0, 1000)
		late, lost := 0, 0
		for _, e := range h.events {
			if e.Ending != predict.Answered {
				lost++
			} else if e.Duration > e.Target {
				late++
			}
		}
		want := late + lost
		if n := len(list.GetRequests().GetNumber()); n != want || int(list.GetInLastMinute()) != want || want == 0 {
			t.Errorf("%d requests are listed, %d counted, want %d", n, list.GetInLastMinute(), want)
		}
		for _, e := range h.events {
			x := h.log.Explain(fmt.Sprint("#", e.Number))
			if x == nil {
				t.Fatalf("request %d is not remembered", e.Number)
			}
			o := e.Execution.Outcome
			if o.Executions > 0 {
				queue, compute := x.GetStartedMs()-x.GetAdmittedMs(), x.GetComputedMs()-x.GetStartedMs()
				if !near(queue, o.Queue) || !near(compute, o.Compute) || !near(x.GetChargedMs(), o.DeviceTime) ||
					!near(x.GetEndedMs(), e.Ended.Sub(e.Arrived)) || x.GetBatch().GetNumber() != uint32(o.Batch) {
					t.Errorf("request %d is explained as %v, it was %+v", e.Number, x, o)
				}
				if mates := len(x.GetBatch().GetMates()); mates != min(o.BatchRequests, 65)-1 {
					t.Errorf("request %d has %d mates in its batch of %d", e.Number, mates, o.BatchRequests)
				}
				var held float64
				for _, holder := range x.GetHolders() {
					held += holder.GetMs()
				}
				if lanes := 1 + float64(seed%2); held > queue*lanes+0.1 {
					t.Errorf("request %d waited for %v ms while others had the device for %v ms", e.Number, queue, held)
				}
			}
			if text := strings.Join(x.GetStory(), " "); !strings.Contains(text, fmt.Sprint("#", e.Number)) {
				t.Errorf("request %d is told as %s", e.Number, text)
			}
		}
		h.lastMinute(t, late, lost)
		time.Sleep(time.Minute)
		h.lastMinute(t, 0, 0)
	})
}

// lastMinute compares how many requests an Activity says were late and lost in the last minute.
func (h *house) lastMinute(t *testing.T, late, lost int) {
	t.Helper()
	a := h.once(t)
	all := int(a.GetLateOrLostLastMinute()) - late - lost
	for _, v := range a.GetVersions() {
		late -= int(v.GetLastMinute().GetLate())
		lost -= int(v.GetLastMinute().GetLost())
	}
	if all != 0 || late != 0 || lost != 0 {
		t.Errorf("%d more in all, %d late and %d lost less than there were", all, late, lost)
	}
}

func near(ms float64, d time.Duration) bool { return math.Abs(ms-float64(d)/1e6) < 0.01 }

// A request that waits for a heavy batch of others is told so.
func TestStory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 1)
		h.ask(t.Context(), h.kinds[2], "first", 1, 0) // costs are known from then on
		h.ask(t.Context(), h.kinds[0], "second", 1, 0)
		go h.ask(t.Context(), h.kinds[2], "heavy", 8, 0)
		time.Sleep(time.Millisecond)
		h.ask(t.Context(), h.kinds[0], "robot-7/step-3", 1, 0)
		time.Sleep(time.Second)
		x := h.log.Explain("robot-7/step-3")
		got := strings.Join(x.GetStory(), "\n")
		const want = `Request #4 ("robot-7/step-3") came at 00:00:00.008, for pick v7, wanted within 20 ms.
It was admitted after 0 us and waited 20 ms for its turn.
Meanwhile the device gpu was used by rank v12 for 20 ms (1 batch).
Batch 4 took it with 0 other requests: 1 row, run as 1. It started then because the device was free, and it was its ` + `turn by the rule "earliest target".
It ran 1.0 ms on gpu. It is charged 1.0 ms of device time, its part by rows.
It was answered after 21 ms: 1.0 ms later than wanted, mostly because of waiting behind rank v12.`
		if got != want {
			t.Errorf("story:\n%s\nwant:\n%s", got, want)
		}
		// A pipeline that had this batch as a step.
		h.log.RequestDone(t.Context(), &predict.Event{
			Number: 9, Model: "policy", Version: 1, Ending: predict.Answered, Arrived: time.Now(), Ended: time.Now(),
			Execution: predict.Execution{Rows: 1, Outcome: sharedsched.Outcome{
				Executions: 3, Batch: 4, Ended: sharedsched.Time(time.Second), Device: "gpu",
			}},
		})
		got = strings.Join(h.log.Explain("#9").GetStory(), "\n")
		for _, want := range []string{"At the end, batch 4 of pick v7 took it", "and ran for 0 us, in 3 executions"} {
			if !strings.Contains(got, want) {
				t.Errorf("story:\n%s\nwant %q in it", got, want)
			}
		}
	})
}

// Names and ids that callers make up take no memory for good.
func TestNothingGrows(t *testing.T) {
	race.Skip(t, "one goroutine")
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 1)
		for i := range 200_000 {
			e := predict.Event{
				Number: uint64(i), ID: fmt.Sprintf("%0300d", i), Code: "NotFound", Ending: predict.Refused, Reason: "NOT_FOUND",
				Arrived: time.Now(), Ended: time.Now(),
			}
			h.log.RequestDone(t.Context(), &e)
		}
		if x := h.log.Explain(fmt.Sprintf("%0300d", 7)); x != nil && x.GetNumber() == 7 {
			t.Error("a request of long ago is remembered")
		}
		list := h.log.Requests("", 0, 1000)
		if list.GetInLastMinute() != 200_000 || list.GetForgotten() != 200_000-65_536 {
			t.Errorf("%d requests in the last minute, %d of them forgotten", list.GetInLastMinute(), list.GetForgotten())
		}
		if a := h.once(t); len(a.GetVersions()) != 3 {
			t.Errorf("there are %d versions", len(a.GetVersions()))
		}
	})
}

// Histories have each second of the last hour, and are forgotten where nothing happens.
func TestHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go h.log.Run(ctx)
		time.Sleep(500 * time.Millisecond)
		for range 90 {
			h.ask(ctx, h.kinds[0], "", 1, 0)
			h.ask(ctx, h.kinds[2], "", 3, 0)
			time.Sleep(time.Second - 17*time.Millisecond)
		}
		for _, c := range []struct {
			model   string
			version int64
			day     bool
			steps   int
			rate    float32
			share   float32
		}{
			{"pick", 7, false, 90, 1, 0.001},
			{"pick", 0, false, 90, 1, 0.001},
			{"pick", 8, false, 90, 0, 0},
			{"", 0, false, 90, 2, 0.017},
			{"", 0, true, 3, 2, 0.017},
		} {
			got := h.log.History(c.model, c.version, c.day)
			if n := len(got.GetAtMs()); n != c.steps {
				t.Fatalf("%+v has %d steps", c, n)
			}
			for i := range c.steps {
				if got.GetRequestsPerSecond()[i] != c.rate && i > 0 || math.Abs(float64(got.GetShare()[i]-c.share)) > 1e-3 {
					t.Errorf("%+v: step %d has %v requests/s and the share %v", c, i, got.GetRequestsPerSecond()[i],
						got.GetShare()[i])
				}
			}
		}
		time.Sleep(2 * time.Hour)
		if got := h.log.History("", 0, false); len(got.GetAtMs()) != 3600 || got.GetRequestsPerSecond()[0] != 0 {
			t.Errorf("after hours the last one has %d steps", len(got.GetAtMs()))
		}
		cancel()
		synctest.Wait()
	})
}

// So many may watch, and no more; one that leaves makes room.
func TestViewersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 1)
		ctx, cancel := context.WithCancel(t.Context())
		for range activity.MostViewers {
			go h.log.Follow(ctx, 0, nil, func(*activity.Frame) bool { return true })
		}
		synctest.Wait()
		if h.log.Follow(ctx, 0, nil, func(*activity.Frame) bool { return false }) {
			t.Error("one more may watch")
		}
		cancel()
		synctest.Wait()
		if !h.log.Follow(t.Context(), 0, nil, func(*activity.Frame) bool { return false }) {
			t.Error("nobody may watch after all have left")
		}
		time.Sleep(time.Second) // the goroutine that makes frames ends
	})
}

// One more is shown something where one of them does not read: the one that has read nothing for longest, or else the
// oldest that never read much. Who reads stays.
func TestWhoDoesNotReadMakesRoom(t *testing.T) {
	const much = 1 << 30
	for name, c := range map[string]struct {
		arrived, left int64 // of viewer 5; the others are sent everything that they are sent
		others        int64 // that has arrived at them
		ends          int   // viewer; -1: none
	}{
		"all read":             {much, 0, much, -1},
		"one does not":         {much, 1, much, 5},
		"one is not known yet": {0, 0, much, 5},
		"all are not known":    {0, 0, 0, 0},
		"one of those not":     {0, 1, 0, 5},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(t, 1)
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan int, activity.MostViewers)
				for i := range activity.MostViewers {
					go func() {
						reads := func() (int64, int64) {
							if i == 5 {
								return c.arrived, c.left
							}
							return c.others, 0
						}
						if !h.log.Follow(ctx, 0, reads, func(*activity.Frame) bool { return true }) {
							ended <- i
						}
					}()
					time.Sleep(10 * time.Millisecond)
				}
				time.Sleep(5 * time.Second)
				shown := h.log.Follow(ctx, 0, nil, func(*activity.Frame) bool { return false })
				synctest.Wait()
				who := -1
				if len(ended) > 0 {
					who = <-ended
				}
				if who != c.ends || len(ended) > 0 || shown != (c.ends >= 0) {
					t.Errorf("viewer %d is shown no more, want %d; the next one is shown something: %v", who, c.ends, shown)
				}
				cancel()
				time.Sleep(time.Second) // the goroutine that makes frames ends
			})
		})
	}
}

// A batch that takes longer than the window uses no more of the device than there is, and who gave up waiting for it
// hears of it while it runs.
func TestLongBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 1)
		h.ask(t.Context(), h.kinds[0], "", 1, 0)
		h.slow = 15 * time.Second
		go h.ask(t.Context(), h.kinds[2], "", 1, 0)
		time.Sleep(time.Millisecond)
		h.ask(t.Context(), h.kinds[0], "impatient", 1, 50*time.Millisecond)
		x := h.log.Explain("impatient")
		if n := x.GetHolders(); len(n) != 1 || n[0].GetModel() != "rank" || n[0].GetMs() < 40 {
			t.Errorf("it waited behind %v: %v", n, x.GetStory())
		}
		time.Sleep(16 * time.Second)
		for _, v := range h.once(t).GetVersions() {
			if share := v.GetShare(); v.GetModel() == "rank" && (share < 0.6 || share > 1) {
				t.Errorf("it used %v of the device", share)
			}
		}
	})
}
