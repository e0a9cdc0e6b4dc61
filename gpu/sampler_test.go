package gpu_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/gpu"
	"github.com/weftserve/weft/gpu/gputest"
	"github.com/weftserve/weft/internal/weftest"
)

// bench is a running Sampler of one device, and the Source that it asks.
type bench struct {
	*gpu.Sampler
	source *gputest.Source
	log    weftest.Log
	lost   []string // the calls of OnLost
	stop   func()
}

// most is the set of quantities that the device of a bench reports at first: everything but ECC errors.
var most = gpu.Sample{
	Clock: 1400, MaxClock: 2000, Reasons: gpu.SWPowerCap, Utilisation: 900, CoTenant: 120,
	MemoryTotal: 80 << 30, MemoryUsed: 20 << 30, MemoryFree: 60 << 30,
	Power: 310.5, PowerLimit: 700, Temperature: 61, XIDs: 1, LastXID: 31,
}

// run starts a Sampler in a bubble and ends it with the test function.
func run(t *testing.T, test func(*testing.T, *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{source: &gputest.Source{}}
		b.source.Set(0, gpu.AllQuantities&^gpu.ECC, most)
		b.Sampler = gpu.NewSampler(gpu.Config{
			Source: b.source, Devices: []gpu.Device{{Name: "cuda:0", UUID: "GPU-1"}}, Interval: 100 * time.Millisecond,
			Expiry: 2 * time.Second, Logger: slog.New(&b.log),
			OnLost: func(d gpu.Device, cause error) { b.lost = append(b.lost, d.Name+": "+cause.Error()) },
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			b.Run(ctx)
		}()
		b.stop = func() {
			cancel()
			<-done
		}
		synctest.Wait()
		test(t, b)
		b.stop()
	})
}

// after lets time pass.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestLatest(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		got, number := b.Latest("cuda:0")
		want := most
		want.At, want.Known = time.Now(), gpu.AllQuantities&^gpu.ECC
		if diff := cmp.Diff(want, got); diff != "" || number != 2 {
			t.Errorf("sample number %d (-want +got):\n%s", number, diff)
		}
		b.source.Set(0, gpu.Clock, gpu.Sample{Clock: 900})
		after(100 * time.Millisecond)
		if got, number = b.Latest("cuda:0"); got.Clock != 900 || got.Temperature != 61 || got.Age() != 0 ||
			number != 4 {
			t.Errorf("sample %+v, number %d; want the new clock with a new number, and the rest kept", got, number)
		}
		if got, number := b.Latest("cuda:7"); number != 0 || got.Known != 0 {
			t.Errorf("of an unknown device: %+v, number %d", got, number)
		}
	})
}

func TestHowOftenEachIsAsked(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		after(10*time.Second + 50*time.Millisecond)
		for q, want := range map[gpu.Quantity]int{
			gpu.Clock: 101, gpu.EventReasons: 101, gpu.Utilisation: 101, gpu.Memory: 101,
			gpu.MaxClock: 11, gpu.Power: 11, gpu.Temperature: 11, gpu.XIDs: 11, gpu.CoTenants: 11,
			gpu.ECC: 1, // which is not supported
		} {
			if got := b.source.Asked(0, q); got != want {
				t.Errorf("%v was asked for %d times in 10 s, want %d", q, got, want)
			}
		}
		want := map[string]int64{"not_supported": 1, "failed": 0, "expired": 0, "blackout": 0, "lost": 0}
		if diff := cmp.Diff(want, b.FallBacks("cuda:0")); diff != "" {
			t.Errorf("fall-backs (-want +got):\n%s", diff)
		}
		if n := len(b.log.Lines("INFO event=gpu_metrics_missing device=cuda:0 missing=ecc")); n != 1 {
			t.Errorf("it is said %d times that ECC errors are not told", n)
		}
	})
}

// TestSlowDriver: a driver that takes its time is asked less often.
func TestSlowDriver(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		before := b.source.Asked(0, gpu.Clock)
		release := b.source.Hold(0)
		after(150 * time.Millisecond) // it was asked 100 ms after the beginning
		release()
		after(400 * time.Millisecond)
		if n := b.source.Asked(0, gpu.Clock) - before; n != 1 {
			t.Errorf("asked %d times within 400 ms of an answer that took 50 ms, want 1", n)
		}
		after(200 * time.Millisecond)
		if n := b.source.Asked(0, gpu.Clock) - before; n < 2 {
			t.Error("never asked again")
		}
	})
}

// TestSlowRounds: however slow a driver is to report on all devices, known values neither expire from one round to the
// next nor become much older than they must.
func TestSlowRounds(t *testing.T) {
	for _, tt := range []struct{ reading, age time.Duration }{
		{20 * time.Millisecond, 2 * time.Second},          // 80 to 200 ms a round
		{100 * time.Millisecond, 2 * time.Second},         // 1 s a round
		{200 * time.Millisecond, 3200 * time.Millisecond}, // 2 s a round
	} {
		t.Run(tt.reading.String(), func(t *testing.T) {
			run(t, func(t *testing.T, b *bench) {
				b.source.Delay(tt.reading)
				after(10 * time.Second)
				before := b.FallBacks("cuda:0")
				for range 600 {
					after(100 * time.Millisecond)
					if s, _ := b.Latest("cuda:0"); s.Expired || !s.Has(gpu.Clock) || s.Age() > tt.age {
						t.Fatalf("%+v, %v old", s, s.Age())
					}
				}
				if diff := cmp.Diff(before, b.FallBacks("cuda:0")); diff != "" {
					t.Errorf("fall-backs (-before +after):\n%s", diff)
				}
				release := b.source.Hold(0)
				after(6*time.Second + tt.age)
				if s, _ := b.Latest("cuda:0"); !s.Expired {
					t.Errorf("while it hangs: %+v", s)
				}
				release()
			})
		})
	}
}

// TestAlarms: an operator is notified of a reason that cuts the clock once, not each time that it comes and goes.
func TestAlarms(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		set := func(r gpu.Reasons) {
			b.source.Set(0, gpu.EventReasons, gpu.Sample{Reasons: r})
			after(200 * time.Millisecond)
		}
		told := func(when string, begun, over int) {
			t.Helper()
			if n, m := len(b.log.Event("gpu_clock_cut")), len(b.log.Event("gpu_clock_restored")); n != begun || m != over {
				t.Errorf("%s: told %d times that it begins, %d that it is over; want %d and %d", when, n, m, begun,
					over)
			}
		}
		set(gpu.SWPowerCap | gpu.SWThermal | gpu.GPUIdle)
		told("what the driver does", 0, 0)
		for range 100 {
			set(gpu.HWSlowdown | gpu.HWPowerBrake | gpu.SWPowerCap)
			set(gpu.SWPowerCap)
		}
		told("coming and going", 1, 0)
		const with = " device=cuda:0 reasons=hw_slowdown,hw_power_brake clock_mhz=1400 max_clock_mhz=2000 " +
			"power_watts=310.5 power_limit_watts=700 temperature_celsius=61"
		if len(b.log.Lines("WARN event=gpu_clock_cut"+with)) != 1 {
			t.Errorf("log %q", b.log.Lines(""))
		}
		set(gpu.HWThermal)
		told("another one", 2, 0)
		set(0)
		after(59 * time.Second)
		told("not for long", 2, 0)
		b.source.Fail(0, gpu.EventReasons, errors.New("busy"))
		after(2 * time.Second)
		b.source.Fail(0, gpu.EventReasons, nil)
		after(time.Second)
		if told("over", 2, 2); len(b.log.Lines("INFO event=gpu_clock_restored"+with)) != 1 {
			t.Errorf("log %q", b.log.Lines(""))
		}
		set(gpu.HWSlowdown)
		told("again", 3, 2)
	})
}

// TestExpiry: while the driver hangs, only a reader can find that a sample is old.
func TestExpiry(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		release := b.source.Hold(0)
		after(2 * time.Second)
		if s, number := b.Latest("cuda:0"); s.Expired || number != 2 {
			t.Errorf("after 2 s: %+v, number %d; want the first sample", s, number)
		}
		taken, _ := b.Latest("cuda:0")
		after(time.Millisecond)
		for range 2 {
			s, number := b.Latest("cuda:0")
			if diff := cmp.Diff(gpu.Sample{At: taken.At, Expired: true}, s); diff != "" || number != 3 {
				t.Errorf("number %d (-want +got):\n%s", number, diff)
			}
		}
		if f := b.FallBacks("cuda:0"); f["expired"] != 1 {
			t.Errorf("fall-backs %+v, want one expired sample however often it is looked at", f)
		}
		release()
		synctest.Wait()
		if s, number := b.Latest("cuda:0"); s.Expired || number != 4 || s.Clock != 1400 {
			t.Errorf("after the driver answered: %+v, number %d", s, number)
		}
	})
}

// TestOneValueFails: it is kept for a while, then it is missing; the others are not touched.
func TestOneValueFails(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.source.Fail(0, gpu.Clock, errors.New("busy"))
		after(1900 * time.Millisecond)
		if s, _ := b.Latest("cuda:0"); s.Clock != 1400 || s.Age() > 100*time.Millisecond {
			t.Errorf("after 1.9 s: %+v", s)
		}
		after(time.Second)
		s, _ := b.Latest("cuda:0")
		if s.Has(gpu.Clock) || s.Clock != 0 || !s.Has(gpu.EventReasons|gpu.Memory|gpu.MaxClock) || s.Expired {
			t.Errorf("after 2.9 s: %+v; want everything but the clock", s)
		}
		if f := b.FallBacks("cuda:0"); f["failed"] != 29 || f["expired"] != 1 || f["blackout"] != 0 {
			t.Errorf("fall-backs %+v", f)
		}
		b.source.Fail(0, gpu.Clock, nil)
		after(100 * time.Millisecond)
		if s, _ := b.Latest("cuda:0"); s.Clock != 1400 {
			t.Errorf("afterwards: %+v", s)
		}
	})
}

func TestBlackout(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		const all = gpu.AllQuantities &^ gpu.XIDs // which the source counts by itself
		b.source.Fail(0, all, errors.New("driver trouble"))
		before := b.source.Asked(0, gpu.Clock)
		after(301 * time.Millisecond)
		if n := b.source.Asked(0, gpu.Clock) - before; n != 3 {
			t.Fatalf("asked %d times before it is left alone, want 3", n)
		}
		for i, seconds := range []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300} {
			before := b.source.Asked(0, gpu.Clock)
			after(time.Duration(seconds)*time.Second - 150*time.Millisecond)
			if n := b.source.Asked(0, gpu.Clock) - before; n != 0 {
				t.Errorf("asked %d times in blackout %d, of %d s", n, i+1, seconds)
			}
			after(150*time.Millisecond + time.Duration(i)) // the ticks are a little later each time
			if n := b.source.Asked(0, gpu.Clock) - before; n != 1 {
				t.Errorf("asked %d times after blackout %d, want once", n, i+1)
			}
		}
		if s, _ := b.Latest("cuda:0"); !s.Expired {
			t.Errorf("sample %+v, want it expired", s)
		}
		if n := len(b.log.Lines("WARN ")); n != 1 {
			t.Errorf("%d warnings, want one", n)
		}
		if f := b.FallBacks("cuda:0"); f["blackout"] != 12 || f["expired"] != 1 {
			t.Errorf("fall-backs %+v", f)
		}
		b.source.Fail(0, all, nil)
		after(301 * time.Second)
		if s, _ := b.Latest("cuda:0"); s.Expired || s.Clock != 1400 || s.Temperature != 61 {
			t.Errorf("sample %+v, want a fresh one", s)
		}
		back := func() int { return len(b.log.Event("gpu_read_recovered")) }
		if n := back(); n != 0 {
			t.Errorf("it is said %d times that the device is back, which may be for a moment", n)
		}
		after(2 * time.Minute)
		if n := back(); n != 1 {
			t.Errorf("it is said %d times that the device is back", n)
		}
	})
}

// TestAnswersNowAndThen: a device that little can be read of, or that can be read for moments only, is not logged each
// time, but is still left alone for longer and longer.
func TestAnswersNowAndThen(t *testing.T) {
	const perInterval = gpu.Clock | gpu.EventReasons | gpu.Utilisation | gpu.Memory
	for name, flap := range map[string]func(*bench){
		"one value each second": func(b *bench) {
			b.source.Fail(0, gpu.AllQuantities&^gpu.PowerLimit, errors.New("driver trouble"))
			after(10 * time.Minute)
		},
		"all of them for 5 s": func(b *bench) {
			for range 60 {
				b.source.Fail(0, perInterval, errors.New("driver trouble"))
				after(5 * time.Second)
				b.source.Fail(0, perInterval, nil)
				after(5 * time.Second)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, b *bench) {
				flap(b)
				if warned, back := len(b.log.Lines("WARN ")), len(b.log.Event("gpu_read_recovered")); warned != 1 ||
					back != 0 {
					t.Errorf("%d warnings, %d times back; want one and none", warned, back)
				}
				if f := b.FallBacks("cuda:0"); f["blackout"] > 30 {
					t.Errorf("in 10 min it was left alone %d times, want ever longer", f["blackout"])
				}
				b.source.Fail(0, gpu.AllQuantities, nil)
				after(7 * time.Minute)
				if back := len(b.log.Event("gpu_read_recovered")); back != 1 {
					t.Errorf("once it answered for good, it is said %d times", back)
				}
			})
		})
	}
}

// TestNothingToSay: that there is nothing to say of a value is no sample.
func TestNothingToSay(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.source.Hush(0, gpu.CoTenants)
		after(2 * time.Second)
		if s, _ := b.Latest("cuda:0"); s.Has(gpu.CoTenants) || s.Clock != 1400 {
			t.Errorf("next to other values: %+v", s)
		}
		b.source.Fail(0, gpu.AllQuantities&^gpu.CoTenants, errors.New("driver trouble"))
		after(3 * time.Second)
		for range 3000 {
			after(100 * time.Millisecond)
			if s, _ := b.Latest("cuda:0"); !s.Expired {
				t.Fatalf("alone: %+v", s)
			}
		}
	})
}

func TestLost(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.source.Fail(0, gpu.AllQuantities, gpu.ErrLost)
		_, number := b.Latest("cuda:0")
		after(100 * time.Millisecond)
		s, next := b.Latest("cuda:0")
		if diff := cmp.Diff(gpu.Sample{At: time.Now(), Lost: true}, s); diff != "" || next <= number {
			t.Errorf("number %d after %d (-want +got):\n%s", next, number, diff)
		}
		if _, _, err := b.ReadMemory(t.Context(), "cuda:0"); !errors.Is(err, gpu.ErrLost) {
			t.Errorf("its memory: %v", err)
		}
		after(time.Minute)
		if s, _ := b.Latest("cuda:0"); !s.Expired || !s.Lost {
			t.Errorf("after a minute: %+v", s)
		}
		if f := b.FallBacks("cuda:0"); f["lost"] != 1 || f["blackout"] < 5 {
			t.Errorf("fall-backs %+v, want one loss", f)
		}
		if n := len(b.log.Lines("WARN ")); n != 1 {
			t.Errorf("%d warnings, want one", n)
		}
		if diff := cmp.Diff([]string{"cuda:0: the GPU is lost"}, b.lost); diff != "" {
			t.Errorf("OnLost (-want +got):\n%s", diff)
		}
		b.source.Fail(0, gpu.AllQuantities, nil)
		after(2 * time.Minute)
		if s, _ := b.Latest("cuda:0"); s.Lost || s.Expired || s.Clock != 1400 {
			t.Errorf("when it is back: %+v", s)
		}
		b.source.Fail(0, gpu.Memory, gpu.ErrLost)
		after(time.Minute)
		if len(b.lost) != 2 {
			t.Errorf("of two losses, OnLost heard of %d", len(b.lost))
		}
	})
}

func TestReadMemory(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.source.Set(0, gpu.Memory, gpu.Sample{MemoryTotal: 80 << 30, MemoryUsed: 79 << 30, MemoryFree: 1 << 30})
		total, free, err := b.ReadMemory(t.Context(), "cuda:0")
		if total != 80<<30 || free != 1<<30 || err != nil {
			t.Errorf("total %d, free %d, %v", total, free, err)
		}
		if s, number := b.Latest("cuda:0"); s.MemoryFree != 1<<30 || number != 4 {
			t.Errorf("%+v, number %d; want what was read to be seen by all", s, number)
		}
		b.source.Fail(0, gpu.Memory, errors.New("busy"))
		if _, _, err := b.ReadMemory(t.Context(), "cuda:0"); err == nil ||
			err.Error() != "read the memory of cuda:0: busy" {
			t.Errorf("error %v", err)
		}
		release := b.source.Hold(0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := b.ReadMemory(ctx, "cuda:0"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v of a driver that hangs", err)
		}
		release()
		b.stop()
		if _, _, err := b.ReadMemory(t.Context(), "cuda:0"); !errors.Is(err, gpu.ErrStopped) {
			t.Errorf("error %v after the end", err)
		}
		if _, _, err := b.ReadMemory(t.Context(), "cuda:1"); err == nil ||
			!strings.Contains(err.Error(), "does not watch") {
			t.Errorf("error %v of an unknown device", err)
		}
	})
}

func TestIdle(t *testing.T) {
	for _, tt := range []struct {
		s    gpu.Sample
		want bool
	}{
		{gpu.Sample{}, false},
		{gpu.Sample{Known: gpu.EventReasons, Reasons: gpu.GPUIdle | gpu.SyncBoost}, true},
		{gpu.Sample{Known: gpu.EventReasons | gpu.Utilisation, Reasons: gpu.SWPowerCap}, false},
		{gpu.Sample{Known: gpu.Utilisation}, true},
		{gpu.Sample{Known: gpu.Utilisation, Utilisation: 10}, false},
	} {
		if got := tt.s.Idle(); got != tt.want {
			t.Errorf("idle %v: %+v", got, tt.s)
		}
	}
}

func TestNames(t *testing.T) {
	const all = "gpu_idle,applications_clocks,sw_power_cap,hw_slowdown,sync_boost,sw_thermal,hw_thermal," +
		"hw_power_brake,display_clocks"
	if got := gpu.AllReasons.String(); got != all {
		t.Errorf("reasons %s", got)
	}
	if got := gpu.Throttled.String(); got != "hw_slowdown,hw_thermal,hw_power_brake" ||
		gpu.Reasons(1<<20).String() != "none" {
		t.Errorf("throttled by %s", got)
	}
	if got := gpu.AllQuantities.String(); strings.Count(got, ",") != 10 || !strings.HasSuffix(got, ",co_tenants") {
		t.Errorf("quantities %s", got)
	}
}

func BenchmarkLatest(b *testing.B) {
	source := &gputest.Source{}
	source.Set(0, gpu.AllQuantities, most)
	s := gpu.NewSampler(gpu.Config{
		Source: source, Devices: []gpu.Device{{Name: "cuda:0"}}, Logger: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	if _, _, err := s.ReadMemory(ctx, "cuda:0"); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		s.Latest("cuda:0")
	}
	cancel()
	<-done
}
