//go:build linux && cgo

package nvidia

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"

	"github.com/weftserve/weft/gpu"
)

// mocked is a driver that has every function, and one device. A function that a test does not define ends it.
func mocked(d *mock.Device) *mock.Interface {
	d.GetUUIDFunc = func() (string, nvml.Return) { return "GPU-mock", nvml.SUCCESS }
	d.GetNameFunc = func() (string, nvml.Return) { return "Mock", nvml.SUCCESS }
	d.GetPciInfoFunc = func() (nvml.PciInfo, nvml.Return) { return nvml.PciInfo{Bus: 1}, nvml.SUCCESS }
	d.GetMigModeFunc = func() (int, int, nvml.Return) { return 0, 0, nvml.ERROR_NOT_SUPPORTED }
	if d.RegisterEventsFunc == nil {
		d.RegisterEventsFunc = func(uint64, nvml.EventSet) nvml.Return { return nvml.ERROR_NOT_SUPPORTED }
	}
	return &mock.Interface{
		ExtensionsFunc: func() nvml.ExtendedInterface {
			return &mock.ExtendedInterface{LookupSymbolFunc: func(string) error { return nil }}
		},
		DeviceGetCountFunc:         func() (int, nvml.Return) { return 1, nvml.SUCCESS },
		DeviceGetHandleByIndexFunc: func(int) (nvml.Device, nvml.Return) { return d, nvml.SUCCESS },
		EventSetCreateFunc: func() (nvml.EventSet, nvml.Return) {
			return &mock.EventSet{FreeFunc: func() nvml.Return { return nvml.SUCCESS }}, nvml.SUCCESS
		},
		ShutdownFunc: func() nvml.Return { return nvml.SUCCESS },
	}
}

func openMock(t *testing.T, lib *mock.Interface, log *slog.Logger) *Source {
	t.Helper()
	s, err := open(lib, Config{Devices: []gpu.Device{{Name: "cuda:0"}}, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestLateAnswer: a driver that answers when it is not waited for any more is let go of.
func TestLateAnswer(t *testing.T) {
	for took, late := range map[time.Duration]bool{time.Second: false, time.Minute: true} {
		synctest.Test(t, func(t *testing.T) {
			lib := mocked(&mock.Device{})
			s, err := inTime(10*time.Second, func() (*Source, error) {
				time.Sleep(took)
				return open(lib, Config{Devices: []gpu.Device{{Name: "cuda:0"}}})
			})
			if u, ok := errors.AsType[*UnavailableError](err); ok != late || late && u.Reason != "no_answer" ||
				(s == nil) != late {
				t.Errorf("after %v: %v, %v", took, s, err)
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			if shut := len(lib.ShutdownCalls()) > 0; shut != late {
				t.Errorf("after %v: let go of: %v", took, shut)
			}
		})
	}
}

// TestOtherNamespace: in a container the driver may count processes as the machine does. Nothing is said of others
// until our own number was seen.
func TestOtherNamespace(t *testing.T) {
	var (
		samples []nvml.ProcessUtilizationSample
		asked   []uint64 // since when
		ret     nvml.Return
	)
	lib := mocked(&mock.Device{GetProcessUtilizationFunc: func(since uint64) ([]nvml.ProcessUtilizationSample,
		nvml.Return,
	) {
		asked = append(asked, since)
		return samples, ret
	}})
	s := openMock(t, lib, nil)
	defer s.Close()
	s.devices[0].processes = processes{own: 7, last: 1000}
	for _, step := range []struct {
		name    string
		ret     nvml.Return
		samples []nvml.ProcessUtilizationSample
		known   bool
		want    int
		since   uint64
	}{
		{
			"others only", nvml.SUCCESS,
			[]nvml.ProcessUtilizationSample{{Pid: 4000, TimeStamp: 1500, SmUtil: 60}},
			false,
			0, 1000,
		},
		{"nobody", nvml.ERROR_NOT_FOUND, nil, false, 0, 1500},
		{"we, and others", nvml.SUCCESS, []nvml.ProcessUtilizationSample{
			{Pid: 7, TimeStamp: 1600, SmUtil: 50},
			{Pid: 8, TimeStamp: 1550, SmUtil: 99},
			{Pid: 8, TimeStamp: 1650, SmUtil: 25},
			{Pid: 9, TimeStamp: 1400, SmUtil: 9},
		}, true, 250, 1500},
		{
			"others only", nvml.SUCCESS,
			[]nvml.ProcessUtilizationSample{{Pid: 8, TimeStamp: 1700, SmUtil: 30}},
			true, 300,
			1650,
		},
		{"nobody", nvml.ERROR_NOT_FOUND, nil, true, 0, 1700},
		{"nobody, said otherwise", nvml.ERROR_INSUFFICIENT_SIZE, nil, true, 0, 1700},
	} {
		samples, ret = step.samples, step.ret
		var got gpu.Sample
		if err := s.Read(0, gpu.CoTenants, &got); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if got.Has(gpu.CoTenants) != step.known || got.CoTenant != step.want || asked[len(asked)-1] != step.since {
			t.Errorf("%s: %+v, asked for what came after %d; want known %v, %d, %d", step.name, got,
				asked[len(asked)-1], step.known, step.want, step.since)
		}
	}
	samples, ret = make([]nvml.ProcessUtilizationSample, 1), nvml.ERROR_INSUFFICIENT_SIZE
	var got gpu.Sample
	if err := s.Read(0, gpu.CoTenants, &got); err == nil || errors.Is(err, gpu.ErrNotSupported) ||
		errors.Is(err, gpu.ErrLost) {
		t.Errorf("a process more than a moment before: %v, want a failure of this time", err)
	}
}

// TestProcessesThatComeInBetween: go-nvml asks for the number of processes first, and panics where there are more of
// them when it asks for these. It is a reading that fails, once, and no more than that.
func TestProcessesThatComeInBetween(t *testing.T) {
	asked := 0
	s := openMock(t, mocked(
		&mock.Device{GetProcessUtilizationFunc: func(since uint64) ([]nvml.ProcessUtilizationSample, nvml.Return) {
			room := make([]nvml.ProcessUtilizationSample, 1) // as go-nvml does it
			number := 2
			if asked++; asked > 1 {
				number = 1
				room[0] = nvml.ProcessUtilizationSample{Pid: 8, TimeStamp: since + 1, SmUtil: 30}
			}
			return room[:number], nvml.SUCCESS
		}}), nil)
	defer s.Close()
	s.devices[0].processes = processes{own: 7, sameCount: true, last: 1000}
	var got gpu.Sample
	if err := s.Read(0, gpu.CoTenants, &got); err == nil || errors.Is(err, gpu.ErrNotSupported) ||
		errors.Is(err, gpu.ErrLost) || got.Known != 0 {
		t.Errorf("%+v, %v; want a failure of this time", got, err)
	}
	if err := s.Read(0, gpu.CoTenants, &got); err != nil || got.CoTenant != 300 {
		t.Errorf("the next time: %+v, %v; want 300", got, err)
	}
}

// TestEventsThatFail: an event set that fails, as that of a lost device does, is asked ever less often.
func TestEventsThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			waits int
			next  []nvml.Return
		)
		d := &mock.Device{RegisterEventsFunc: func(types uint64, _ nvml.EventSet) nvml.Return {
			if types != nvml.EventTypeXidCriticalError {
				t.Errorf("events %#x", types)
			}
			return nvml.SUCCESS
		}}
		lib := mocked(d)
		freed := 0
		lib.EventSetCreateFunc = func() (nvml.EventSet, nvml.Return) {
			return &mock.EventSet{
				WaitFunc: func(milliseconds uint32) (nvml.EventData, nvml.Return) {
					waits++
					if len(next) > 0 {
						ret := next[0]
						next = next[1:]
						return nvml.EventData{
							Device: d, EventType: nvml.EventTypeXidCriticalError, EventData: 79,
							GpuInstanceId: noInstance,
						}, ret
					}
					time.Sleep(time.Duration(milliseconds) * time.Millisecond)
					return nvml.EventData{}, nvml.ERROR_TIMEOUT
				},
				FreeFunc: func() nvml.Return { freed++; return nvml.SUCCESS },
			}, nvml.SUCCESS
		}
		next = []nvml.Return{nvml.SUCCESS, nvml.SUCCESS}
		for range 8 {
			next = append(next, nvml.ERROR_GPU_IS_LOST)
		}
		var log strings.Builder
		s := openMock(t, lib, slog.New(slog.NewTextHandler(&log, nil)))
		time.Sleep(150 * time.Second) // 1+2+4+8+16+32+60 s of pauses
		synctest.Wait()
		if waits != 2+8 {
			t.Errorf("asked %d times within 150 s", waits)
		}
		var got gpu.Sample
		if err := s.Read(0, gpu.XIDs, &got); err != nil || got.XIDs != 2 || got.LastXID != 79 {
			t.Errorf("%+v, %v", got, err)
		}
		if n := strings.Count(log.String(), "level=WARN"); n != 1 ||
			!strings.Contains(log.String(), "event=gpu_error_reported device=cuda:0 xid=79") {
			t.Errorf("log:\n%s", log.String())
		}
		if err := s.Close(); err != nil || freed != 1 || len(lib.ShutdownCalls()) != 1 {
			t.Errorf("closed with %v, %d sets freed, %d shutdowns", err, freed, len(lib.ShutdownCalls()))
		}
	})
}

// TestReasonsAreNVMLs: the bits are taken over as they are.
func TestReasonsAreNVMLs(t *testing.T) {
	for ours, theirs := range map[gpu.Reasons]uint64{
		gpu.GPUIdle:            nvml.ClocksEventReasonGpuIdle,
		gpu.ApplicationsClocks: nvml.ClocksEventReasonApplicationsClocksSetting,
		gpu.SWPowerCap:         nvml.ClocksEventReasonSwPowerCap, gpu.HWSlowdown: nvml.ClocksThrottleReasonHwSlowdown,
		gpu.SyncBoost: nvml.ClocksEventReasonSyncBoost, gpu.SWThermal: nvml.ClocksEventReasonSwThermalSlowdown,
		gpu.HWThermal:     nvml.ClocksThrottleReasonHwThermalSlowdown,
		gpu.HWPowerBrake:  nvml.ClocksThrottleReasonHwPowerBrakeSlowdown,
		gpu.DisplayClocks: nvml.ClocksEventReasonDisplayClockSetting, gpu.AllReasons: nvml.ClocksEventReasonAll,
	} {
		if uint64(ours) != theirs {
			t.Errorf("%v is %#x, of NVML %#x", ours, uint64(ours), theirs)
		}
	}
}
