//go:build linux

package poison

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// The reasons of errors that poisons have.
const (
	crashed   = "ENGINE_CRASHED"
	exhausted = "OUT_OF_MEMORY"
	tooLarge  = "ANSWER_TOO_LARGE"
)

// TestPoisons loads and asks each poison while innocents are served by the same device, and by another.
func TestPoisons(t *testing.T) {
	if testing.Short() {
		t.Skip("it serves models in processes that die")
	}
	together(t)
	for _, isolation := range []string{"device", "model"} {
		t.Run(isolation, func(t *testing.T) {
			if isolation == "model" && !weftest.Long() {
				t.Skip("it differs in the process that dies only; WEFT_LONG=1 has it run")
			}
			s := serve(t, addInnocents(t, innocents), "--isolation="+isolation, "--run-timeout=1s",
				"--worker-memory=512MiB")
			l := callInnocents(s, 2)
			l.more(20)
			all := served(t)
			var f figures
			for group := range slices.Chunk(all, groupSize) {
				try(t, s, l, group, &f)
			}
			divisions(t, s, l)
			l.more(20)
			if !s.alive() {
				t.Error("the server has ended")
			}
			answers := l.stop()
			if n := l.lost.Load(); n > 0 {
				t.Errorf("%d of %d answers to innocents were lost or wrong", n, answers)
			}
			f.report(t, answers, s)
		})
	}
}

// groupSize is how many poisons are loaded at a time: each that hangs has its turn on the device before an innocent has
// another.
const groupSize = 10

// try loads poisons, asks each, and takes them away again.
func try(t *testing.T, s *server, l *load, group []poison, f *figures) {
	for i := range group {
		addModel(t, s.repository, group[i].name, group[i].sketch, group[i].manifest())
	}
	states := awaitLoads(t, s, l, group)
	for i := range group {
		p := &group[i]
		start := time.Now()
		answer, err := ask(t, s, p.request(t))
		end := time.Now()
		p.judge(t, states[p.name], answer, err)
		l.more(2)
		f.add(p, states[p.name], end.Sub(start), l.longest(start, end), err)
		if err := os.RemoveAll(filepath.Join(s.repository, p.name)); err != nil {
			t.Fatal(err)
		}
	}
}

// manifest is of a poison: what its opening or its request does is to happen, not what a proof of its batches does.
func (p *poison) manifest() string { return `batching: {mode: "off"}` }

func ask(t *testing.T, s *server, r *weftv1.PredictRequest) (*weftv1.PredictResponse, error) {
	ctx, cancel := context.WithTimeout(t.Context(), innocentLimit)
	defer cancel()
	return weftv1.NewPredictionServiceClient(s.conn).Predict(ctx, r)
}

// awaitLoads waits until each poison is loaded, or could not be, and returns their states.
func awaitLoads(t *testing.T, s *server, l *load, all []poison) map[string]weftv1.VersionState {
	t.Helper()
	states := map[string]weftv1.VersionState{}
	for end := time.Now().Add(weftest.Patience + time.Duration(len(all))*10*time.Second); ; {
		listed, err := weftv1.NewModelServiceClient(s.conn).ListModels(t.Context(), &weftv1.ListModelsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range listed.GetModels() {
			for _, v := range m.GetVersions() {
				states[m.GetName()] = v.GetState()
			}
		}
		open := slices.DeleteFunc(slices.Clone(all), func(p poison) bool {
			return states[p.name] == weftv1.VersionState_VERSION_STATE_READY ||
				states[p.name] == weftv1.VersionState_VERSION_STATE_FAILED
		})
		if len(open) == 0 {
			return states
		}
		if time.Now().After(end) {
			for _, p := range open {
				t.Errorf("%s is still %v", p.name, states[p.name])
			}
			return states
		}
		l.more(1)
	}
}

// judge checks what the caller of a poison is told.
func (p *poison) judge(t *testing.T, state weftv1.VersionState, answer *weftv1.PredictResponse, err error) {
	t.Helper()
	code, reason := status.Code(err), ""
	var names []string
	for _, d := range status.Convert(err).Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			reason = d.GetReason()
			names = append(names, d.GetMetadata()["model"])
		case *errdetails.ResourceInfo:
			names = append(names, d.GetResourceName())
		}
	}
	// Much memory takes much time, and the other way round; an answer may be known to be too large before either.
	reasons := []string{crashed}
	if p.takesMuch() || p.kind == hung {
		reasons = []string{exhausted, tooLarge, crashed}
	}
	ended := !(p.kind == hung && p.where == "open") // which ends after a while
	switch {
	case err == nil && ended:
		t.Errorf("%s (%s) was answered: %.200v", p.name, p.kind, answer)
	case err == nil:
	case !slices.Contains(names, p.name) && !strings.Contains(err.Error(), p.name):
		t.Errorf("%s: the error does not name the model: %v", p.name, err)
	case state == weftv1.VersionState_VERSION_STATE_READY && ended &&
		(!slices.Contains(reasons, reason) || (code == codes.Internal) != (reason == crashed)):
		t.Errorf("%s (%s): got %v, want an error of the reasons %v", p.name, p.kind, err, reasons)
	}
}

// divisions sends a row that kills to a model whose other rows are innocents' at the same time, in the same batches.
func divisions(t *testing.T, s *server, l *load) {
	t.Helper()
	killer := poison{name: "ratios", kind: "SIGFPE"}
	for i := range 2 { // after a third one the version is taken out
		answer, err := ask(t, s, floatRequest("ratios", []float32{6, 3, 0, float32(i), math.MinInt64, -1, 0, 0}))
		killer.judge(t, weftv1.VersionState_VERSION_STATE_READY, answer, err)
		l.more(2)
	}
}
