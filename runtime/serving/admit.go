package serving

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/execution"
	"github.com/weftserve/weft/runtime/fleet"
	"github.com/weftserve/weft/runtime/proof"
	"github.com/weftserve/weft/runtime/residency"
)

// admit makes an opened replica ready to serve. Its steps: check the signature against the manifest; decide along which
// dimensions rows are joined; add the replica to the scheduler, since proofs run through it; prove; find the state of
// episodes; warm up; confirm that the files have not changed. After an error it is out of the scheduler, and the caller
// closes its session.
func (r *Replica) admit(ctx context.Context, c residency.Candidate, near func(*fleet.Device) *Replica) (err error) {
	start := time.Now()
	r.said = r.Opened.Session.Signature().Clone()
	r.said.Notes = append(append(r.said.Notes, r.Opened.Notes...), r.first.notes()...)
	// Its errors name the file of the settings.
	if err := c.Manifest.Declared.Check(r.said, c.Manifest.State); err != nil {
		return err
	}
	if err := c.Manifest.Declared.Show(r.said); err != nil {
		return err
	}
	d, err := r.decide(c)
	if err != nil {
		return err
	}
	r.unit.Follow(execution.NewPlan(d.Signature, time.Duration(c.Manifest.Batching.MaxBatchCost)))
	// Proofs run through the scheduler, so that they take turns with live traffic.
	if err := r.enroll(c, near(r.Device)); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			r.dismiss()
		}
	}()
	found, err := r.prove(ctx, c, d)
	if err != nil {
		return err
	}
	if err := r.checkStaged(); err != nil {
		return err
	}
	if err := r.keep(c); err != nil {
		return err
	}
	if err := r.tune(r.unit.Plan(), settings(c.Manifest, r.verdict)); err != nil {
		return err
	}
	if err := r.warmUp(ctx, c); err != nil {
		return err
	}
	// Further replicas are opened from the copy that was confirmed with the first, whatever has become of the files.
	if files := r.copied.held(); files != nil && len(r.Replicas()) == 0 {
		if err := files.Confirm(ctx); err != nil {
			return err
		}
	}
	judged := r.judged(c.Manifest)
	// A request is checked by one signature, whichever replica runs it.
	if others := r.Replicas(); len(others) > 0 && !others[0].signature.Same(d.Signature) {
		return fmt.Errorf("%s: on %s it takes or gives other tensors than on %s", c.Path(), r.Device.Name,
			others[0].Device.Name)
	}
	r.sessions.Add(1)
	level := slog.LevelInfo
	if d.Against == "" && (!judged.Batched || !judged.Padded && d.HasLengths()) {
		level = slog.LevelWarn // the manifest and the model's declaration would have allowed it
	}
	batched, reason := judged.Batched && judged.Most > 1, judged.Reason
	if batched && level == slog.LevelInfo {
		reason = "" // proof says it in a word, and GetModel in full
	}
	r.shared.Log.Log(ctx, level, "version ready", "event", "version_ready",
		"model", r.Model, "version", r.Number, "device", r.Opened.Device,
		"provider", r.Opened.Provider, "batched", batched, "proof", judged.Proof, "reason", reason,
		"obstacle", judged.Obstacle, "warm_up", found.Spent.Round(time.Microsecond),
		"took", time.Since(start).Round(time.Millisecond))
	return nil
}

// decide returns along which dimensions rows are joined, by the manifest and by the graph if the files are read.
func (r *Replica) decide(c residency.Candidate) (*proof.Decision, error) {
	d, err := proof.Decide(r.said.Clone(), &c.Manifest.Batching)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Path(), err)
	}
	if files := r.copied.held(); files != nil {
		d.Consult(files.Graph(), r.Opened.Foreign)
	}
	return d, nil
}

// prove proves by synthetic rows that batches do not change answers, and measures what batches cost. The replica is in
// the scheduler. It sets the replica's plan, its verdict and the signature that it is published with.
func (r *Replica) prove(ctx context.Context, c residency.Candidate, d *proof.Decision) (*proof.Found, error) {
	s := &proof.Subject{
		Model: r.Model, Version: r.Number, Device: r.Device.Name,
		Batching: &c.Manifest.Batching, Log: r.shared.Log,
		Told: r.loading.count,
	}
	r.loading.enter(catalog.StageProving)
	runs, end := provingRunner(r)
	defer end()
	found, err := proof.Prove(ctx, runs, s, d)
	if err == nil {
		plan := planOf(found.Signature, found.Verdict, s.Batching)
		plan.Trims = found.Trims
		r.signature, r.bare, r.verdict = found.Signature, found.Bare, found.Verdict
		r.unit.Follow(plan)
		err = found.WarmUp(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: warm-up: %w", c.Path(), err)
	}
	r.forgetRuns(c)
	return found, nil
}

// forgetRuns drops what runs without a caller have left: large buffers, and counts of executions.
func (r *Replica) forgetRuns(c residency.Candidate) {
	if !c.Manifest.ONNX.PinBuffers { // to page-lock memory takes long, and others their time
		r.unit.Trim()
	}
	r.unit.Counts.Forget()
}
