package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/weftserve/weft/tools/lab/harness"
)

// Callers of the closed loops.
const (
	callers     = 64
	manyCallers = 256
)

// networkLoad is a closed loop of the network, and how much of ONNX Runtime alone it ought to reach.
type networkLoad struct {
	callers, rows int
	aim           float64
}

var networkLoads = []networkLoad{{callers, 1, 0.7}, {manyCallers, 1, 0.8}, {callers, 16, 0.9}}

func (l networkLoad) scene() string {
	scene := fmt.Sprintf("network, %d callers", l.callers)
	if l.rows > 1 {
		scene += fmt.Sprintf(", %d rows each", l.rows)
	}
	return scene
}

func wireScene(payload string) string { return "wire, " + payload }

// wire has models of no work answer large and small requests.
func (r *round) wire() error {
	for _, p := range payloads {
		targets := append([]string{echoBytes, echoDecodes, echoZeroCopy}, r.wefts()...)
		if err := r.closed(wireScene(p.name), load{model: identityName(p.width), callers: callers}, targets...); err != nil {
			return err
		}
	}
	for _, m := range models() { // for their memory
		if err := r.engine(m.name); err != nil {
			return err
		}
	}
	return nil
}

func (r *round) policy() error {
	targets := append([]string{echoBytes}, r.wefts()...)
	return errors.Join(r.engine(policyName), r.closed(policyName, load{model: policyName, callers: callers}, targets...))
}

func (r *round) network() error {
	if err := r.engine(networkName); err != nil {
		return err
	}
	targets := append([]string{echoBytes}, r.wefts()...)
	for _, l := range networkLoads {
		if err := r.closed(l.scene(), load{model: networkName, callers: l.callers, rows: l.rows}, targets...); err != nil {
			return err
		}
	}
	return nil
}

// Figures of ONNX Runtime without a server.
const (
	engineTarget = "ONNX Runtime"
	rowsFigure   = "rows/s"
	timeFigure   = "us"
	bestFigure   = "best "
)

func engineScene(model string) string { return "alone, " + model }

// engine measures a model without a server.
func (r *round) engine(model string) error {
	r.scene = engineScene(model)
	paces, err := engine(r.ctx, r.place.server, modelPath(filepath.Join(r.folder, "models"), model), r.effort.engine)
	if err != nil {
		return err
	}
	for _, p := range paces {
		r.note(engineTarget, batchFigure(p.Batch, rowsFigure), p.RowsPS)
		r.note(engineTarget, batchFigure(p.Batch, cpuFigure), p.CPUUs)
		r.note(engineTarget, batchFigure(p.Batch, timeFigure), p.BatchUs)
	}
	rows, cpu := best(paces)
	r.note(engineTarget, bestFigure+rowsFigure, rows)
	r.note(engineTarget, bestFigure+cpuFigure, cpu)
	r.note(engineTarget, memoryFigure, paces[len(paces)-1].MemoryMB)
	fmt.Fprintf(r.progress, "round %d, %s, %s: %+v\n", r.number+1, r.place.name, r.scene, paces)
	return nil
}

// lonely are the models that a lone caller asks.
var lonely = []string{policyName, identityName(payloads[0].width)}

func loneScene(model string) string { return "lone caller, " + model }

func (r *round) lone() error {
	for _, model := range lonely {
		targets := append([]string{echoBytes}, r.wefts()...)
		l := load{model: model, callers: 1}
		if err := errors.Join(r.engine(model), r.closed(loneScene(model), l, targets...)); err != nil {
			return err
		}
	}
	return nil
}

const refusalScene = "refusal"

// refusal measures what it costs to refuse: gRPC alone, and servers of a model that is busy for a second with each
// request and has a queue of one.
func (r *round) refusal() (err error) {
	stuckModels := filepath.Join(r.folder, "stuck")
	if err := harness.WriteAll(stuckModels, map[string][]byte{
		stuckName + "/1/README": nil, stuckName + "/model.yaml": []byte(stuck),
	}); err != nil {
		return err
	}
	names := slices.DeleteFunc(r.wefts(), func(name string) bool { return name == weftNone }) // models play no part
	others := r.servers
	r.servers = map[string]*server{echoRefusal: others[echoRefusal]}
	defer func() {
		delete(r.servers, echoRefusal)
		err = errors.Join(err, r.stop())
		r.servers = others
	}()
	for _, name := range names {
		if err := r.addWeft(name, stuckModels); err != nil {
			return err
		}
	}
	r.scene = refusalScene
	for _, name := range append([]string{echoRefusal}, names...) {
		model := stuckName
		if name == echoRefusal {
			model = networkName
		}
		m, err := r.bench(r.servers[name], load{
			model: model, rows: overloadRows, callers: callers, deadline: safety,
		})
		if err != nil {
			return err
		}
		if refused := m.Codes["ResourceExhausted"]; refused < (m.Sent-m.Unanswered)*9/10 {
			return fmt.Errorf("%s refused %d of %d requests only: %v, %v", name, refused, m.Sent, m.Codes, m.FirstErrors)
		}
		r.note(name, cpuFigure, m.cpuUs)
		r.note(name, "refusals/s", float64(m.Codes["ResourceExhausted"])/m.span)
		r.note(name, p99Figure, m.RefusedMs.P99)
	}
	return nil
}
