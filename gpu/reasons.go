package gpu

import "strings"

// Reasons is a set of reasons why a GPU does not run at its highest clock. The bits are NVML's.
type Reasons uint32

// Each reason; together AllReasons.
const (
	GPUIdle            Reasons = 1 << iota // nothing runs, so that the clock means nothing
	ApplicationsClocks                     // a user set a lower clock
	SWPowerCap                             // the power limit
	HWSlowdown                             // the hardware cuts the clock by half or more: heat, power or a fault
	SyncBoost                              // other GPUs of the group are slower
	SWThermal                              // the driver keeps the temperature down
	HWThermal                              // the hardware does
	HWPowerBrake                           // the power supply asks for it
	DisplayClocks                          // a display does

	AllReasons = GPUIdle | ApplicationsClocks | SWPowerCap | HWSlowdown | SyncBoost | SWThermal | HWThermal |
		HWPowerBrake | DisplayClocks
)

// Throttled are the reasons of the hardware, which are trouble: heat, power supply, a fault. A power limit is not,
// since it is always there under full load, and neither is SWThermal: a driver that keeps the temperature down may do
// so for days.
const Throttled = HWSlowdown | HWThermal | HWPowerBrake

var reasonNames = [...]string{
	"gpu_idle", "applications_clocks", "sw_power_cap", "hw_slowdown", "sync_boost", "sw_thermal", "hw_thermal",
	"hw_power_brake",
	"display_clocks",
}

// Names lists the reasons of the set, in the order of the constants.
func (r Reasons) Names() []string {
	var names []string
	for i, name := range reasonNames {
		if r&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// String joins the names with commas; "none" where there are none.
func (r Reasons) String() string {
	if r&AllReasons == 0 {
		return "none"
	}
	return strings.Join(r.Names(), ",")
}
