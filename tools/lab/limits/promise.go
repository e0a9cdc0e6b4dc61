package main

import (
	"fmt"
	"math"
)

// promise is what a server ought to reach, and what it did.
type promise struct {
	what, place, server string
	got                 series
	format              string
	aim                 float64
	most                bool // the aim is the most that it may be, not the least
}

// met says whether the median reaches the aim.
func (p *promise) met() string {
	median := p.got.median()
	switch {
	case math.IsNaN(median):
		return "not measured"
	case p.most && median <= p.aim, !p.most && median >= p.aim:
		return "yes"
	default:
		return "NO"
	}
}

func (p *promise) row() []string {
	sign := "≥ "
	if p.most {
		sign = "≤ "
	}
	return []string{p.what, p.place, p.server, p.got.cell(p.format), sign + fmt.Sprintf(p.format, p.aim), p.met()}
}

// judge is the figures of one server in one placement.
type judge struct {
	*book

	place, server string
	promises      []promise
}

func (j *judge) of(scene, target, figure string) series {
	return j.figures[key{j.place, scene, target, figure}]
}

func (j *judge) atLeast(aim float64, got series, what string) {
	j.promise(aim, got, what, "%.2f", false)
}

func (j *judge) atMost(aim float64, got series, what, format string) {
	j.promise(aim, got, what, format, true)
}

// promise notes what was measured; what was not is left out.
func (j *judge) promise(aim float64, got series, what, format string, most bool) {
	if len(got) > 0 {
		j.promises = append(j.promises, promise{what, j.place, j.server, got, format, aim, most})
	}
}

// all judges a server by everything that was measured.
func (j *judge) all(multiples []float64) []promise {
	j.wire()
	j.models()
	j.part()
	j.overload(multiples)
	return j.promises
}

// byTime is said of ratios of processor times, where both have nothing but their processor to wait for.
const byTime = ", by processor time"

func (j *judge) wire() {
	for i, p := range payloads {
		answers := func(target string) series { return j.of(wireScene(p.name), target, answersFigure) }
		if i == len(payloads)-1 {
			memory := j.of(wireScene(p.name), j.server, memoryFigure)
			for _, m := range models() { // all are loaded
				memory = memory.minus(j.of(engineScene(m.name), engineTarget, memoryFigure))
			}
			j.atMost(1.3, memory.over(j.of(wireScene(p.name), echoBytes, memoryFigure)),
				"memory, less the models', over echo, "+p.name, "%.2f")
		}
		used := func(target string) series { return j.of(wireScene(p.name), target, cpuFigure) }
		for _, of := range []struct {
			echo string
			aim  float64
		}{{echoBytes, p.overBytes}, {echoZeroCopy, p.overZeroCopy}} {
			what := "answers over " + of.echo + ", " + p.name
			j.atLeast(of.aim, answers(j.server).over(answers(of.echo)), what)
			j.atLeast(of.aim, used(of.echo).over(used(j.server)), what+byTime)
		}
	}
}

func (j *judge) models() {
	sum := func(v ...float64) float64 { return v[0] + v[1] }
	least := combine(sum, j.of(policyName, echoBytes, cpuFigure),
		j.of(engineScene(policyName), engineTarget, bestFigure+cpuFigure))
	j.atMost(1.25, j.of(policyName, j.server, cpuFigure).over(least), "policy: processor time over echo and model", "%.2f")
	j.atLeast(16, j.of(policyName, j.server, batchRows), "policy: rows in a batch")
	for _, l := range networkLoads {
		times := func(v ...float64) float64 { return float64(l.rows) * v[0] }
		alone := j.of(engineScene(networkName), engineTarget, bestFigure+rowsFigure)
		what := l.scene() + ": answers over ONNX Runtime alone"
		j.atLeast(l.aim, combine(times, j.of(l.scene(), j.server, answersFigure)).over(alone), what)
		model := combine(times, j.of(engineScene(networkName), engineTarget, bestFigure+cpuFigure))
		used := j.of(l.scene(), j.server, cpuFigure)
		j.atLeast(l.aim, model.over(used), what+byTime)
		// A server has to read and answer, too: more than this the processors do not allow.
		least := combine(sum, model, j.of(l.scene(), echoBytes, cpuFigure))
		j.atLeast(l.aim, least.over(used), l.scene()+": processor time of ONNX Runtime and echo over the server's")
	}
	for _, model := range lonely {
		for figure, aim := range map[string]float64{p50Figure: 60, p99Figure: 200} {
			added := combine(func(v ...float64) float64 { return 1000*(v[0]-v[1]) - v[2] },
				j.of(loneScene(model), j.server, figure), j.of(loneScene(model), echoBytes, figure),
				j.of(engineScene(model), engineTarget, batchFigure(1, timeFigure)))
			j.atMost(aim, added, loneScene(model)+": "+figure[:3]+" over echo and model, us", "%.0f")
		}
	}
}

func (j *judge) overload(multiples []float64) {
	for _, how := range ladder {
		for _, multiple := range multiples {
			scene := ladderScene(how, multiple)
			if multiple >= 1.5 {
				j.atLeast(0.95, j.of(scene, j.server, goodputFigure).over(j.bound(scene)), scene+": in time over the bound")
			}
			j.atMost(5, j.of(scene, j.server, refusedFigure), scene+": refused, p99 ms", "%.1f")
			j.atMost(1, j.of(scene, j.server, lateFigure), scene+": "+lateFigure, "%.1f")
		}
	}
	for _, how := range afterwards {
		j.atMost(2, j.of(slowScene+how.name, j.server, recoveryFigure), slowScene+how.name+": back within s", "%.1f")
	}
}

// bound is what the server could answer in time while it refuses what it refused, if a refusal cost what it costs gRPC.
func (j *judge) bound(scene string) series {
	return combine(func(v ...float64) float64 { return boundOf(v[0], v[1], v[2]) },
		j.of(capacityScene+overloadPart, j.server, answersFigure), j.of(scene, j.server, refusalsFigure),
		j.of(refusalScene, echoRefusal, cpuFigure))
}
