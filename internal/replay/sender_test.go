package replay

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/internal/record"
	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// arrivedAt returns entries that arrived so many milliseconds after some moment.
func arrivedAt(ms ...int) iter.Seq2[*record.Entry, error] {
	return func(yield func(*record.Entry, error) bool) {
		for _, m := range ms {
			e := &record.Entry{
				At: time.UnixMilli(1e12 + int64(m)), LimitUs: 7e6,
				Request: weftest.Request("walker", float32(m)),
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

func TestReplayKeepsTheSpacing(t *testing.T) {
	tests := []struct {
		name        string
		speed       Speed
		concurrency int
		takes       time.Duration // each request
		want        []int         // ms after the first at which requests are sent
		late        time.Duration
		maxGap      time.Duration
		cut         time.Duration
		hurried     bool
	}{
		// Nobody waits for an answer: that is the meaning of an open loop.
		{"recorded", 1, 64, time.Second, []int{0, 10, 10, 500}, 0, 0, 0, false},
		{"twice as fast", 2, 64, time.Second, []int{0, 5, 5, 250}, 0, 0, 0, true},
		{"half as fast", 0.5, 64, time.Second, []int{0, 20, 20, 1000}, 0, 0, 0, false},
		{
			"no more at once than allowed", 1, 2, 100 * time.Millisecond,
			[]int{0, 10, 100, 500},
			90 * time.Millisecond, 0,
			0, false,
		},
		{"max", 0, 1, 100 * time.Millisecond, []int{0, 100, 200, 300}, 0, 0, 0, true},
		{
			"pauses cut", 1, 64, time.Second,
			[]int{0, 10, 10, 110},
			0, 100 * time.Millisecond, 390 * time.Millisecond,
			true,
		},
		{
			"pauses cut, half as fast", 0.5, 64, time.Second,
			[]int{0, 20, 20, 220},
			0, 100 * time.Millisecond,
			390 * time.Millisecond, true,
		},
		{"no pause is as long", 1, 64, time.Second, []int{0, 10, 10, 500}, 0, 490 * time.Millisecond, 0, false},
		{
			"max has no pauses", 0, 1, 100 * time.Millisecond,
			[]int{0, 100, 200, 300},
			0, 100 * time.Millisecond, 0,
			true,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var (
					mu   sync.Mutex
					sent []int
					done int
				)
				s := &sender{
					speed: tt.speed, concurrency: tt.concurrency, maxGap: tt.maxGap,
					choose: func(*weftv1.PredictRequest) {},
					done: func(r replayed) {
						mu.Lock()
						defer mu.Unlock()
						if done++; r.took != tt.takes {
							t.Errorf("took %v, want %v", r.took, tt.takes)
						}
					},
					predict: func(ctx context.Context, _ *weftv1.PredictRequest) (*weftv1.PredictResponse, error) {
						mu.Lock()
						sent = append(sent, int(time.Since(start).Milliseconds()))
						mu.Unlock()
						time.Sleep(tt.takes)
						return &weftv1.PredictResponse{}, nil
					},
				}
				if err := s.run(t.Context(), arrivedAt(0, 10, 10, 500)); err != nil {
					t.Fatal(err)
				}
				slices.Sort(sent)
				if diff := cmp.Diff(tt.want, sent); diff != "" {
					t.Errorf("sent (-want +got):\n%s", diff)
				}
				if done != 4 || s.sent != 4 {
					t.Errorf("%d done, %d sent; want 4 when run returns", done, s.sent)
				}
				if s.cut != tt.cut || (s.gaps > 0) != (tt.cut > 0) || s.hurried() != tt.hurried {
					t.Errorf("%d pauses cut by %v, hurried: %v; want %v, %v", s.gaps, s.cut, s.hurried(), tt.cut,
						tt.hurried)
				}
				if late := percentile(s.late.ascending(), 1); late != tt.late {
					t.Errorf("late by %v, want %v", late, tt.late)
				}
			})
		})
	}
}

func TestReplayLimits(t *testing.T) {
	for _, tt := range []struct {
		timeout, recorded, want time.Duration
	}{{0, 7 * time.Second, 7 * time.Second}, {0, 0, defaultLimit}, {time.Second, 7 * time.Second, time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			s := &sender{
				timeout: tt.timeout, choose: func(*weftv1.PredictRequest) {},
				predict: func(ctx context.Context, _ *weftv1.PredictRequest) (*weftv1.PredictResponse, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				},
				done: func(r replayed) {
					if !errors.Is(r.err, context.DeadlineExceeded) || r.answer != nil {
						t.Errorf("ended with %v, %v", r.answer, r.err)
					}
				},
			}
			_, _ = s.send(t.Context(), &record.Entry{
				LimitUs: tt.recorded.Microseconds(),
				Request: weftest.Request("walker", 1),
			}, 0)
			if took := time.Since(start); took != tt.want {
				t.Errorf("timeout %v, recorded %v: given up after %v, want %v", tt.timeout, tt.recorded, took, tt.want)
			}
		})
	}
}

func TestReplayStopsAtAnError(t *testing.T) {
	broken := errors.New("broken")
	s := &sender{concurrency: 1}
	err := s.run(t.Context(), func(yield func(*record.Entry, error) bool) { yield(nil, broken) })
	if !errors.Is(err, broken) {
		t.Errorf("error %v, want the sequence's", err)
	}
}

func TestInOrder(t *testing.T) {
	milliseconds := func(count int, bytes int64, ms ...int) (got []int) {
		for e, err := range inOrder(arrivedAt(ms...), count, bytes) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, int(e.At.UnixMilli()-1e12))
		}
		return got
	}
	tests := []struct {
		name     string
		count    int
		bytes    int64
		ms, want []int
	}{
		{"whole", 10, 1 << 20, []int{4, 1, 3, 2}, []int{1, 2, 3, 4}},
		{"as far as it can look", 2, 1 << 20, []int{4, 3, 1, 2}, []int{3, 1, 2, 4}},
		{"as far as it can hold", 10, 1, []int{4, 3, 1, 2}, []int{3, 1, 2, 4}},
		{"none", 10, 1 << 20, nil, nil},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, milliseconds(tt.count, tt.bytes, tt.ms...)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	steps := func(yield func(*record.Entry, error) bool) {
		for e := range arrivedAt(4, 1, 3, 2) { // 4 and 3 are of an episode, and stored in its order
			if e.At.UnixMilli() > 1e12+2 {
				e.State = 7
			}
			if !yield(e, nil) {
				return
			}
		}
	}
	var got []int
	for e := range inOrder(steps, 10, 1<<20) {
		got = append(got, int(e.At.UnixMilli()-1e12))
	}
	if diff := cmp.Diff([]int{1, 2, 4, 3}, got); diff != "" {
		t.Errorf("steps of an episode (-want +got):\n%s", diff)
	}
	for range inOrder(arrivedAt(1, 2, 3), 10, 1<<20) { // may be left early
		break
	}
}

func TestReplaySpeed(t *testing.T) {
	for text, want := range map[string]Speed{"recorded": 1, "max": 0, "2": 2, "2x": 2, "0.5": 0.5} {
		var got Speed
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
		var again Speed
		if err := again.UnmarshalText([]byte(want.String())); err != nil || again != want {
			t.Errorf("%s: written %s, which reads as %v, %v", text, want, again, err)
		}
	}
	for _, text := range []string{"", "0", "-1", "NaN", "Inf", "fast", "x"} {
		if err := new(Speed(1)).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func TestDurationsAreASample(t *testing.T) {
	var d durations
	for i := range 4 * maxDurations {
		d.add(time.Duration(i))
	}
	if len(d.sample) != maxDurations || d.seen != 4*maxDurations {
		t.Fatalf("%d kept of %d", len(d.sample), d.seen)
	}
	sample := d.ascending()
	for _, part := range []float64{0.25, 0.5, 0.75, 0.99} {
		// 65536 draws: a percentile's rank is off by at most 0.2 % of all, one standard error.
		if got := float64(percentile(sample, part)) / (4 * maxDurations); got < part-0.01 || got > part+0.01 {
			t.Errorf("the percentile %v of 0..1 is %v", part, got)
		}
	}
	if got := percentile([]time.Duration{1, 2, 3, 4}, 0.5); got != 2 {
		t.Errorf("the median of 1 to 4 is %v, want 2", got)
	}
	if got := percentile(nil, 0.5); got != 0 {
		t.Errorf("the median of nothing is %v", got)
	}
}
