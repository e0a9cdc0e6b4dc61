package main

import (
	"fmt"
	"strconv"

	"github.com/weftserve/weft/tools/lab/harness"
)

// closedLoops shows the absolute figures of all closed loops.
func (c *runCommand) closedLoops(b *book, places []place) *harness.Table {
	t := &harness.Table{
		Title: "Closed loops",
		About: "Processor time is the server's, of one request; memory is what the server and its children had at most, " +
			"mapped files left out.",
		Columns: []string{
			"scene", "processors", "server", "answers/s", "processor time, us", "p50, ms", "p99, ms",
			"rows in a batch", "memory, MB",
		},
	}
	var scenes []string
	for _, p := range payloads {
		scenes = append(scenes, wireScene(p.name))
	}
	scenes = append(scenes, policyName)
	for _, l := range networkLoads {
		scenes = append(scenes, l.scene())
	}
	for _, model := range lonely {
		scenes = append(scenes, loneScene(model))
	}
	for _, scene := range append(scenes, capacityScene+overloadPart, capacityScene+recoveryPart) {
		for _, p := range places {
			for _, server := range append([]string{echoBytes, echoDecodes, echoZeroCopy}, c.names()...) {
				of := func(figure, format string) string {
					return b.figures[key{p.name, scene, server, figure}].cell(format)
				}
				if len(b.figures[key{p.name, scene, server, answersFigure}]) > 0 {
					t.Add(scene, p.name, server, of(answersFigure, "%.0f"), of(cpuFigure, "%.1f"), of(p50Figure, "%.3f"),
						of(p99Figure, "%.3f"), of(batchRows, "%.1f"), of(memoryFigure, "%.0f"))
				}
			}
		}
	}
	return t
}

// alone shows ONNX Runtime without a server.
func (c *runCommand) alone(b *book, places []place) *harness.Table {
	t := &harness.Table{
		Title: "ONNX Runtime without a server", About: "One batch after another, on each of the server's processors.",
		Columns: []string{"model", "processors", "batch", "rows/s", "processor time of a row, us", "time of a batch, us"},
	}
	for _, model := range []string{policyName, networkName} {
		for _, p := range places {
			for _, rows := range batchSizes {
				of := func(figure string) series {
					return b.figures[key{p.name, engineScene(model), engineTarget, batchFigure(rows, figure)}]
				}
				if len(of(timeFigure)) > 0 {
					t.Add(model, p.name, strconv.Itoa(rows), of(rowsFigure).cell("%.0f"), of(cpuFigure).cell("%.2f"),
						of(timeFigure).cell("%.0f"))
				}
			}
		}
	}
	return t
}

// refusals shows what it costs to refuse.
func (c *runCommand) refusals(b *book, places []place) *harness.Table {
	t := &harness.Table{
		Title: "What a refusal costs",
		About: "A bare gRPC server that refuses every call before its message is read (\"refusal\"), and servers whose one " +
			"model is busy.",
		Columns: []string{"server", "processors", "processor time, us", "refusals/s", "p99, ms"},
	}
	for _, p := range places {
		for _, server := range append([]string{echoRefusal}, c.names()...) {
			of := func(figure string) series { return b.figures[key{p.name, refusalScene, server, figure}] }
			if len(of(cpuFigure)) > 0 {
				t.Add(server, p.name, of(cpuFigure).cell("%.1f"), of("refusals/s").cell("%.0f"), of(p99Figure).cell("%.2f"))
			}
		}
	}
	return t
}

// ladder shows the overload, and both terms of the bound.
func (c *runCommand) ladder(b *book, places []place, e effort) *harness.Table {
	t := &harness.Table{
		Title: "More than it can do",
		About: "The bound is what the server can do (256 callers that wait), less the time that as many refusals take of a " +
			"bare gRPC server.",
		Columns: []string{
			"offered", "processors", "server", "offered/s", "can do/s", "less, for refusals", "in time/s",
			"over the bound", "refused, p99 ms", lateFigure, "memory, MB",
		},
	}
	for _, p := range places {
		for _, server := range c.names() {
			j := &judge{book: b, place: p.name, server: server}
			capacity := j.of(capacityScene+overloadPart, server, answersFigure)
			for _, how := range ladder {
				for _, multiple := range e.multiples {
					scene := ladderScene(how, multiple)
					of := func(figure, format string) string { return j.of(scene, server, figure).cell(format) }
					if len(j.of(scene, server, goodputFigure)) == 0 {
						continue
					}
					bound := j.bound(scene)
					t.Add(scene, p.name, server, of(offeredFigure, "%.0f"), capacity.cell("%.0f"), capacity.minus(bound).cell("%.0f"),
						of(goodputFigure, "%.0f"), j.of(scene, server, goodputFigure).over(bound).cell("%.2f"),
						of(refusedFigure, "%.1f"), of(lateFigure, "%.1f"), of(memoryFigure, "%.0f"))
				}
			}
		}
	}
	return t
}

// slowdowns shows how servers recover.
func (c *runCommand) slowdowns(b *book, places []place) *harness.Table {
	t := &harness.Table{
		Title: "Slow for a while",
		About: fmt.Sprintf("The server and its children are stopped (SIGSTOP) for %v of every %v, at a constant %.0f %% of "+
			"what they can do otherwise. They are back when two parts of the run, a sixtieth each, have "+
			"%.0f %% of the answers in time that there were before.",
			slowRests, slowRests+slowRuns, 100*offeredBefore, 100*recovered),
		Columns: []string{
			"clients", "processors", "server", "in time/s before", "while it was slow", "back after, s", "memory, MB",
		},
	}
	for _, p := range places {
		for _, server := range c.names() {
			for _, how := range afterwards {
				of := func(figure string) series { return b.figures[key{p.name, slowScene + how.name, server, figure}] }
				if len(of(recoveryFigure)) > 0 {
					t.Add(how.name, p.name, server, of(beforeFigure).cell("%.0f"), of(duringFigure).cell("%.0f"),
						of(recoveryFigure).cell("%.1f"), of(memoryFigure).cell("%.0f"))
				}
			}
		}
	}
	return t
}
