package sim

import (
	"math/rand/v2"
	"time"
)

// Shift is a scene in which the device changes, to see the worth of telemetry: it is played by the server's scheduler
// in several ways, which differ in its telemetry.
type Shift struct {
	Name, About string
	Workload    Workload
	Load        float64
	Ways        []Maker
}

// sampled is how often a GPU is asked for its clock, and for its memory.
var sampled = Telemetry{Every: 200 * time.Millisecond, Memory: time.Second}

// Names of ways.
const (
	untold     = "without telemetry"
	toldAll    = "with telemetry"
	toldSeldom = "share of others read every second"
	toldRarely = "share of others read every 5 s"
	forgetful  = "nor told what ran out of memory"
)

// Shifts returns all of them.
func Shifts() []Shift {
	seldom, rarely := sampled, sampled
	seldom.CoTenant, rarely.CoTenant = time.Second, 5*time.Second
	clockDown, besideUs := during(1, 3, 4, Pace{Clock: 0.7}), during(1, 3, 4, Pace{CoTenant: 0.4})
	without, with := told(untold, Telemetry{}), told(toldAll, sampled)
	return []Shift{
		{
			"clock step", "30 unlike models; the clock is 30 % down for half of the time",
			suffering(heterogeneous(30, 30), clockDown), 0.6,
			[]Maker{without, with},
		},
		{
			"clock step, heavy models", "the same with 6 models of 40+4n ms that want answers in 300 ms",
			suffering(equal(6, 40, 4, 300), clockDown), 0.6,
			[]Maker{without, with},
		},
		{
			"co-tenant", "30 unlike models; somebody else uses two fifths of the device for half of the time",
			suffering(heterogeneous(30, 30), besideUs), 0.6,
			[]Maker{without, with, told(toldSeldom, seldom), told(toldRarely, rarely)},
		},
		{
			"memory", "10 models of 4+0.4n ms that were never run; when the load doubles, somebody else has taken " +
				"most of the memory",
			crowding(), 0.45,
			[]Maker{Core(forgetful, CoreOptions{Forgetful: true}), without, with},
		},
	}
}

// told returns the server's scheduler with some telemetry.
func told(name string, t Telemetry) Maker {
	m := Core(name, CoreOptions{})
	m.Telemetry = t
	return m
}

// suffering returns models that each suffer in their own way from changes of the device: 40 to 100 % of its time
// goes with the clock, and a share of others adds 0.6 to 1.67 times itself. It is 1.67 if others take two fifths of the
// device in turns with us.
func suffering(models []Model, pace func(time.Duration) []Pace) Workload {
	toCapacity(models)
	rng := rand.New(rand.NewPCG(9, 9))
	for i := range models {
		models[i].ClockShare = 0.4 + 0.6*rng.Float64()
		models[i].CoTenantGain = 0.6 + 1.07*rng.Float64()
	}
	return Workload{Models: models, Arrivals: []Process{{CV: 1}}, Device: TypicalDevice, Pace: pace}
}

// crowding returns models that could use all of the device's memory. Another process takes three quarters of it
// before they need it.
func crowding() Workload {
	models := equal(10, 4, 0.4, 200)
	toCapacity(models)
	const gib = 1 << 30
	for i := range models {
		models[i].Cold, models[i].RowMemory = true, gib/40
	}
	device := TypicalDevice
	device.Memory = 16 * gib
	return Workload{
		Models: models, Device: device,
		Pace:     during(1, 4, 5, Pace{Taken: 12 * gib}),
		Arrivals: []Process{{CV: 1, Course: Course(10, Part{3, 1}, Part{7, 2}, Part{10, 1})}},
	}
}
