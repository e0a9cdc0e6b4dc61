package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Group says why a scene is played.
type Group uint8

// The groups of scenes.
const (
	Overload  Group = iota // not all flows can be served: some must lose, and which?
	Adversity              // made to hurt flows that ask for little
	Change                 // the device is not as it was measured
)

// Scene is a workload at one load, and the figures to watch in it.
type Scene struct {
	Group       Group
	Name, About string
	Workload    Workload
	Load        float64
	Isolation   bool              // it shows how flows are protected from each other
	Watched     func(*Model) bool // whose share on time is of interest; nil: of all
	// From limits that share to the requests that arrive from then on. Nil: all of them.
	From func(span time.Duration) time.Duration
}

// Scenes returns all scenes.
func Scenes() []Scene {
	return []Scene{
		onSuite(Overload, "het30cv3", 1.5), onSuite(Overload, "het30cv3", 3), onSuite(Overload, "bimodal", 1.5),
		aggressor("aggressor", "one of ten flows floods, 2.7 times the capacity in all", 0.06, 2.7-9*0.06),
		aggressor("aggressor ×10",
			"one of ten flows asks for ten times its fair share, the others for four fifths of theirs", 0.08, 1),
		keys(1), keys(200), trickle(), flash(), beside(), impatient(), coldStorm(), flip(),
		slowed("clock step", "30 unlike models at half load; the clock is 30 % down for half of the time",
			during(1, 3, 4, Pace{Speed: 0.7})),
		slowed("co-tenant", "30 unlike models at half load; somebody else slows the device by half again and again",
			coTenant),
		misjudged(),
	}
}

// onSuite is a workload of the suite at a load.
func onSuite(g Group, name string, load float64) Scene {
	w := inSuite(name)
	return Scene{Group: g, Name: fmt.Sprintf("%s ×%g", name, load), About: w.About, Workload: *w, Load: load}
}

// aggressor has nine models that ask for the modest share of the device each, and one that asks for the flood.
func aggressor(name, about string, modest, flood float64) Scene {
	models := equal(10, 2, 0.2, 100)
	demands(models, modest)
	models[0].Name = "aggressor"
	demands(models[:1], flood)
	s := scene(name, about, models, calm("aggressor"))
	s.Group, s.Isolation = Overload, true
	return s
}

// keys has a model that asks for as much as the whole device, its requests of n shapes, and five modest ones.
func keys(n int) Scene {
	models := equal(6, 2, 0.2, 100)
	demands(models, 0.12)
	models[0].Name, models[0].Keys = "shapes", n
	demands(models[:1], 1)
	name := fmt.Sprintf("%d shapes", n)
	if n == 1 {
		name = "one shape"
	}
	s := scene(name, "a flooding model with so many shapes; the share on time of the five modest flows beside it",
		models, calm("shapes"))
	s.Isolation = n > 1
	return s
}

// trickle has a model that gets one request a second, and ten that ask for 1.2 times the device.
func trickle() Scene {
	models := equal(11, 4, 0.4, 200)
	demands(models, 0.12)
	models[0] = linear("trickle", 4, 0.4, 50, 1)
	s := scene("trickle", "one request a second beside saturation; the share on time of the former", models,
		func(m *Model) bool { return m.Name == "trickle" })
	s.Isolation = true
	return s
}

// flash multiplies the load of ten models by ten for half of the time, and then is back at 0.9 of the capacity.
func flash() Scene {
	models := equal(10, 4, 0.4, 200)
	toCapacity(models)
	s := scene("flash crowd", "ten times 0.9 of the capacity for half of the time; the share on time of what arrives "+
		"0.2 s (the SLO) after it",
		models, nil)
	s.Load = 0.9
	s.From = func(span time.Duration) time.Duration { return span*13/20 + models[0].SLO }
	s.Workload.Arrivals = []Process{{Course: Course(20, Part{3, 1}, Part{13, 10}, Part{20, 1})}}
	return s
}

// beside has a light model with a tight SLO, and a heavy one that wants the whole device.
func beside() Scene {
	models := []Model{linear("light", 1.8, 0.2, 20, 1), linear("heavy", 5, 1, 500, 1)}
	demands(models[:1], 0.3)
	demands(models[1:], 1)
	return scene("light beside heavy",
		"2 ms with a 20 ms SLO beside 5+1n ms at saturation; the share on time of the light one",
		models, func(m *Model) bool { return m.Name == "light" })
}

// impatient has a model that floods and whose callers claim to want every answer within 1 ms.
func impatient() Scene {
	models := equal(6, 2, 0.2, 100)
	demands(models, 0.12)
	models[0].Name, models[0].Target = "impatient", time.Millisecond
	demands(models[:1], 1)
	return scene("impatient",
		"a flooding model whose callers say they want answers within 1 ms; the share on time of the others",
		models, calm("impatient"))
}

// coldStorm has 50 models of unknown cost that come at once.
func coldStorm() Scene {
	models := equal(60, 4, 0.4, 250)
	course := make([]Process, len(models))
	for i := range models[10:] {
		m := &models[10+i]
		m.Name, m.Cold = "cold", true
		course[10+i].Course = Course(4, Part{1, 0}, Part{4, 1})
	}
	demands(models[:10], 0.06)
	demands(models[10:], 0.004)
	s := scene("cold storm", "50 models of unknown cost come at once; the share on time of the ten that were there",
		models, calm("cold"))
	s.Workload.Arrivals = course
	return s
}

// flip moves the traffic of a model to its next version, which was never measured, at one moment. The known costs of
// the old one stand in for its own.
func flip() Scene {
	models := equal(6, 2, 0.2, 100)
	demands(models, 0.12)
	demands(models[:2], 0.3)
	models[0].Name, models[1].Name, models[1].Cold, models[1].Inherits = "old", "new", true, "old"
	s := scene("version flip", "all traffic of a model moves at one moment to a version that was never measured; the "+
		"share on time of everything after it",
		models, nil)
	s.From = func(span time.Duration) time.Duration { return span / 2 }
	s.Workload.Arrivals = make([]Process, len(models))
	s.Workload.Arrivals[0].Course = Course(2, Part{1, 1}, Part{2, 0})
	s.Workload.Arrivals[1].Course = Course(2, Part{1, 0}, Part{2, 1})
	return s
}

// slowed is the unlike models at half load on a device whose speed changes.
func slowed(name, about string, pace func(time.Duration) []Pace) Scene {
	s := onSuite(Change, "het30", 0.5)
	s.Name, s.About, s.Workload.Pace = name, about, pace
	return s
}

// misjudged has profiles that are wrong by a factor, log-normal with 20 %, and stay so unless the policy learns.
func misjudged() Scene {
	s := onSuite(Change, "het30cv3", 0.8)
	s.Name, s.About = "wrong profiles", "30 unlike models in bursts; profiled costs are wrong by 20 %"
	rng := rand.New(rand.NewPCG(7, 7))
	for range s.Workload.Models {
		s.Workload.Error = append(s.Workload.Error, math.Exp(0.2*rng.NormFloat64()))
	}
	return s
}

func scene(name, about string, models []Model, watched func(*Model) bool) Scene {
	return Scene{
		Group: Adversity, Name: name, About: about, Load: 1, Watched: watched,
		Workload: Workload{Name: name, About: about, Models: models, Arrivals: []Process{{}}, Device: TypicalDevice},
	}
}

// calm watches all but the model of that name.
func calm(troublemaker string) func(*Model) bool {
	return func(m *Model) bool { return m.Name != troublemaker }
}
