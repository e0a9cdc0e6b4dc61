//go:build linux && cgo

package nvidia

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weftserve/weft/gpu"
)

// one is a machine with one GPU.
var one = []string{
	"count 1", "0.uuid GPU-1", "0.name NVIDIA Test 80GB", "0.bus 59",
	"0.clock 1395", "0.max_clock 1980", "0.reasons 0x24", "0.utilisation 87",
	"0.total 85899345920", "0.used 1073741824", "0.free 84000000000", "0.reserved 500000000",
	"0.power 312500", "0.limit 700000", "0.temperature 61", "0.ecc 2", "0.processes 99999999:30,99999998:15",
	"0.xid 0:0",
}

// with returns the lines with some keys said differently.
func with(lines []string, changed ...string) []string {
	for _, line := range changed {
		key, _, _ := strings.Cut(line, " ")
		lines = slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return strings.HasPrefix(l, key+" ") })
		lines = append(lines, line)
	}
	return lines
}

// of returns the answer about one device, without the share of other processes, which is for another test.
func of(t *testing.T, a answer, without gpu.Quantity) {
	t.Helper()
	want := gpu.Sample{
		Known: gpu.AllQuantities, Clock: 1395, MaxClock: 1980, Reasons: gpu.SWPowerCap | gpu.SWThermal,
		Utilisation: 870,
		MemoryTotal: 85899345920, MemoryUsed: 1073741824, MemoryFree: 84000000000,
		Power: 312.5, PowerLimit: 700, Temperature: 61, ECC: 2, CoTenant: 450,
	}
	want.Set(without, &gpu.Sample{})
	if diff := cmp.Diff(want, a.Sample); diff != "" {
		t.Errorf("sample (-want +got):\n%s\nerrors %v", diff, a.Errors)
	}
	for q := gpu.Quantity(1); q <= gpu.AllQuantities; q <<= 1 {
		if failed := strings.Contains(a.Errors[q.String()], gpu.ErrNotSupported.Error()); failed != (without&q != 0) {
			t.Errorf("%v: error %q", q, a.Errors[q.String()])
		}
	}
}

func TestEverythingIsRead(t *testing.T) {
	n, folder := build(t)
	n.Say(t, one...)
	c := start(t, folder)
	wantDevices := []gpu.Device{{Name: "cuda:0", UUID: "GPU-1", Product: "NVIDIA Test 80GB", Bus: "0000:3b:00"}}
	if !cmp.Equal(wantDevices, c.Devices) || !cmp.Equal(c.Missing, []gpu.Device{{Name: "cuda:1", Ordinal: 1}}) {
		t.Errorf("devices %+v, missing %+v", c.Devices, c.Missing)
	}
	of(t, c.read()[0], 0)
	n.Say(t, with(one, "0.clock 900", "0.reasons 0x48", "0.processes 99999999:30,99999999:101,0:50")...)
	if a := c.read()[0]; a.Clock != 900 || a.Reasons != gpu.HWSlowdown|gpu.HWThermal || a.CoTenant != 300 {
		t.Errorf("a moment later: %+v", a)
	}
	n.Say(t, with(one, "0.processes 99999999:90,99999998:80")...)
	if a := c.read()[0]; a.CoTenant != 1000 {
		t.Errorf("share of others: %d", a.CoTenant)
	}
}

// TestOldDrivers: whatever function a library lacks, the process goes on, and all else is read. A library that lacks a
// function without which nothing can be read is not used.
func TestOldDrivers(t *testing.T) {
	optional := map[string]gpu.Quantity{
		"nvmlErrorString": 0, "nvmlDeviceGetName": 0, "nvmlDeviceGetPciInfo_v3": 0, "nvmlDeviceGetMigMode": 0,
		"nvmlDeviceGetMaxMigDeviceCount": 0, "nvmlDeviceGetMigDeviceHandleByIndex": 0, "nvmlDeviceGetGpuInstanceId": 0,
		"nvmlDeviceRegisterEvents": gpu.XIDs, "nvmlEventSetWait_v2": gpu.XIDs, "nvmlEventSetFree": gpu.XIDs,
	}
	lines := with(one, "0.throttle_reasons 0x24")
	for q, ways := range readings {
		for _, way := range ways {
			optional[way.symbol] = q
			if len(ways) > 1 {
				optional[way.symbol] = 0 // the other way is left
			}
		}
	}
	for _, function := range slices.Sorted(maps.Keys(optional)) {
		t.Run(function, func(t *testing.T) {
			t.Parallel()
			n, folder := build(t, function)
			lines := lines
			if function == "nvmlDeviceGetMemoryInfo_v2" {
				lines = with(lines, "0.used 573741824") // the older function adds reserved memory
			}
			n.Say(t, lines...)
			of(t, start(t, folder).read()[0], optional[function])
		})
	}
	t.Run("all", func(t *testing.T) {
		t.Parallel()
		n, folder := build(t, slices.Collect(maps.Keys(optional))...)
		n.Say(t, one...)
		c := start(t, folder)
		of(t, c.read()[0], gpu.AllQuantities)
		if d := c.Devices[0]; d.Product != "" || d.Bus != "0000:00:00" {
			t.Errorf("device %+v", d)
		}
	})
	for _, names := range needed {
		t.Run("without "+names[0], func(t *testing.T) {
			t.Parallel()
			n, folder := build(t, names[0])
			n.Say(t, one...)
			c := start(t, folder)
			if c.Reason != "old_driver" ||
				!strings.Contains(c.Error, "too old, or something else: it lacks "+names[0]) {
				t.Errorf("%+v", c.opened)
			}
		})
	}
}

func TestNothingToAsk(t *testing.T) {
	t.Run("no library", func(t *testing.T) {
		c := start(t, t.TempDir(), "WEFT_TEST_NVML_LIBRARY=libweft-is-not-there.so.1")
		if c.Reason != "no_library" ||
			!strings.Contains(c.Error, "no NVIDIA driver library (NVML): libweft-is-not-there.so.1: cannot open") {
			t.Errorf("%+v", c.opened)
		}
	})
	t.Run("not a library", func(t *testing.T) {
		folder := t.TempDir()
		if err := os.WriteFile(filepath.Join(folder, "libnvidia-ml.so.1"), []byte("no"), 0o644); err != nil {
			t.Fatal(err)
		}
		if c := start(t, folder); c.Reason != "no_library" {
			t.Errorf("%+v", c.opened)
		}
	})
	// The library ends a process that calls anything although nvmlInit failed.
	for number, text := range map[int]string{
		9: "the driver is not loaded", 18: "updated without a restart",
		4: "no permission", 77: "NVML error 77",
	} {
		t.Run(text, func(t *testing.T) {
			n, folder := build(t)
			n.Say(t, with(one, fmt.Sprintf("init !%d", number))...)
			if c := start(t, folder); c.Reason != "no_driver" || !strings.Contains(c.Error, text) {
				t.Errorf("%+v", c.opened)
			}
		})
	}
	t.Run("no device", func(t *testing.T) {
		n, folder := build(t)
		n.Say(t, "count 0")
		if c := start(t, folder); c.Reason != "no_device" || !strings.Contains(c.Error, "shows 0 GPUs") {
			t.Errorf("%+v", c.opened)
		}
	})
	t.Run("no count", func(t *testing.T) {
		n, folder := build(t)
		n.Say(t, "count !999")
		if c := start(t, folder); c.Reason != "no_driver" || !strings.Contains(c.Error, "failed without saying why") {
			t.Errorf("%+v", c.opened)
		}
	})
	for _, call := range []string{"init", "count", "0.uuid"} {
		t.Run(call+" hangs", func(t *testing.T) {
			n, folder := build(t)
			n.Say(t, with(one, call+" wait")...)
			if c := start(t, folder, "WEFT_TEST_NVML_HANGS=1"); c.Reason != "no_answer" ||
				!strings.Contains(c.Error, "did not answer within 50ms") {
				t.Errorf("%+v", c.opened)
			}
		})
	}
	t.Run("hidden", func(t *testing.T) {
		n, folder := build(t)
		n.Say(t, one...)
		if c := start(t, folder, "CUDA_VISIBLE_DEVICES="); c.Reason != "no_device" ||
			!strings.Contains(c.Error, "shows 1 GPUs, of which CUDA_VISIBLE_DEVICES leaves 0") {
			t.Errorf("%+v", c.opened)
		}
	})
}

func TestDeviceThatFails(t *testing.T) {
	n, folder := build(t)
	n.Say(t, one...)
	c := start(t, folder)
	of(t, c.read()[0], 0)
	n.Say(t, with(one, "0.clock !15", "0.power !16", "0.temperature !999", "0.ecc !3", "0.utilisation !4",
		"0.processes !21")...)
	a := c.read()[0]
	for q, want := range map[string]string{
		"clock":       "read clock: the GPU is lost: the GPU fell off the bus, or cannot be reached for another reason",
		"power":       "read power: the GPU is lost: the GPU must be reset",
		"temperature": "read temperature: the driver failed without saying why",
		"ecc":         "read ecc: the device or its driver does not tell this: not supported",
		"utilisation": "read utilisation: the device or its driver does not tell this: no permission",
		"co_tenants":  "",
	} {
		if a.Errors[q] != want {
			t.Errorf("%s: error %q, want %q", q, a.Errors[q], want)
		}
	}
	if want := gpu.EventReasons | gpu.Memory | gpu.MaxClock | gpu.PowerLimit | gpu.XIDs; a.Known != want {
		t.Errorf("known: %v, want %v", a.Known, want)
	}
	n.Say(t, one...)
	of(t, c.read()[0], 0)
}

func TestOrderOfDevices(t *testing.T) {
	n, folder := build(t)
	// NVML lists them in another order than the bus; the second may not be used by us.
	n.Say(t, "count 4", "0.uuid GPU-late", "0.bus 200", "1.uuid !4", "2.uuid GPU-early", "2.bus 3", "3.uuid GPU-middle",
		"3.bus 100")
	for list, want := range map[string][]string{
		"unset": {"GPU-early", "GPU-middle"}, "2,0": {"GPU-late", "GPU-early"}, "GPU-mid": {"GPU-middle"},
	} {
		var env []string
		if list != "unset" {
			env = []string{"CUDA_VISIBLE_DEVICES=" + list}
		}
		var got []string
		for _, d := range start(t, folder, env...).Devices {
			got = append(got, d.UUID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("CUDA_VISIBLE_DEVICES %s: %v, want %v", list, got, want)
		}
	}
}

// TestInstances: a part of a GPU has memory of its own, and the clock of the whole.
func TestInstances(t *testing.T) {
	n, folder := build(t)
	n.Say(t, append(with(one, "0.mig 2", "0.xid 94:1:5"), "0.0.uuid MIG-a", "0.0.instance 3", "0.0.total 1000",
		"0.0.used 100", "0.0.free 900",
		"0.1.uuid MIG-b", "0.1.instance 5", "0.1.total 2000", "0.1.used 200", "0.1.free 1800", "1.uuid GPU-2")...)
	c := start(t, folder)
	want := []gpu.Device{
		{Name: "cuda:0", UUID: "MIG-a", Product: "NVIDIA Test 80GB", Bus: "0000:3b:00", Part: true},
		{Name: "cuda:1", Ordinal: 1, UUID: "MIG-b", Product: "NVIDIA Test 80GB", Bus: "0000:3b:00", Part: true},
	}
	if diff := cmp.Diff(want, c.Devices); diff != "" {
		t.Fatalf("devices (-want +got):\n%s", diff)
	}
	answers := c.read()
	for range 10_000 { // until the error was heard of
		if answers[1].XIDs > 0 {
			break
		}
		answers = c.read()
	}
	for i, want := range []gpu.Sample{
		{MemoryTotal: 1000, MemoryUsed: 100, MemoryFree: 900},
		{MemoryTotal: 2000, MemoryUsed: 200, MemoryFree: 1800, XIDs: 1, LastXID: 94},
	} {
		want.Known = gpu.AllQuantities &^ (gpu.Utilisation | gpu.CoTenants)
		want.Clock, want.MaxClock, want.Reasons, want.Power, want.PowerLimit, want.Temperature, want.ECC = 1395, 1980,
			0x24, 312.5, 700, 61, 2
		if diff := cmp.Diff(want, answers[i].Sample, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("part %d (-want +got):\n%s", i, diff)
		}
	}
	if got := start(t, folder, "CUDA_VISIBLE_DEVICES=MIG-b").Devices; len(got) != 1 || got[0].UUID != "MIG-b" {
		t.Errorf("with one visible: %+v", got)
	}
}

func TestReportedErrors(t *testing.T) {
	n, folder := build(t)
	n.Say(t, one...)
	c := start(t, folder)
	if a := c.read()[0]; a.XIDs != 0 || !a.Has(gpu.XIDs) {
		t.Errorf("%+v", a)
	}
	for i := range 3 {
		n.Say(t, with(one, fmt.Sprintf("0.xid 31:%d", i+1))...)
		var a answer
		for range 10_000 { // each takes a process to answer, and the library looks every 5 ms
			if a = c.read()[0]; a.XIDs > int64(i) {
				break
			}
		}
		if a.XIDs != int64(i+1) || a.LastXID != 31 {
			t.Fatalf("error %d: %d counted, the last %d", i+1, a.XIDs, a.LastXID)
		}
	}
}
