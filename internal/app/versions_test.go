package app

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/record"
	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// watched has the repository looked at often.
func watched(c *App) { c.WatchInterval = config.Duration(100 * time.Millisecond) }

// until asks for the model walker until want is true of it.
func (r *running) until(t *testing.T, what string, want func(*weftv1.Model) bool) {
	t.Helper()
	client := weftv1.NewModelServiceClient(r.conn)
	weftest.Until(t, what, func() bool {
		answer, err := client.GetModel(t.Context(), &weftv1.GetModelRequest{Name: "walker"})
		return err == nil && want(answer.GetModel())
	})
}

// ready returns the versions of a model that are ready.
func ready(m *weftv1.Model) string {
	var versions []int64
	for _, v := range m.GetVersions() {
		if v.GetState() == weftv1.VersionState_VERSION_STATE_READY {
			versions = append(versions, v.GetVersion())
		}
	}
	return fmt.Sprint(versions)
}

// TestNewVersionTakesOver adds versions while requests are coming: each takes over from the one before, and no request
// fails.
func TestNewVersionTakesOver(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 4 seconds")
	}
	repository := t.TempDir()
	weftest.AddVersion(t, repository, "walker", 1)
	weftest.SetManifest(t, repository, "walker", quick)
	r := serveFrom(t, repository, watched)
	r.awaitReady(t)

	ctx, stop := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	newest := make([]int64, 4)
	for i := range newest {
		asking.Go(func() {
			client := weftv1.NewPredictionServiceClient(r.conn)
			for ctx.Err() == nil {
				answer, err := client.Predict(t.Context(), weftest.Request("walker", 1))
				if err != nil {
					t.Errorf("a request failed while versions changed: %v", err)
					return
				}
				if v := answer.GetModel().GetVersion(); v < newest[i] {
					t.Errorf("version %d answered after version %d", v, newest[i])
				} else {
					newest[i] = v
				}
			}
		})
	}
	for version := 2; version <= 4; version++ {
		weftest.AddVersion(t, repository, "walker", version)
		r.until(t, fmt.Sprintf("version %d alone is ready", version), func(m *weftv1.Model) bool {
			return ready(m) == fmt.Sprintf("[%d]", version)
		})
	}
	stop()
	asking.Wait()
}

// TestTrafficStaysWithEpisodes moves traffic while an episode runs.
func TestTrafficStaysWithEpisodes(t *testing.T) {
	repository := t.TempDir()
	for version := 1; version <= 2; version++ {
		weftest.AddVersion(t, repository, "walker", version)
	}
	weftest.SetManifest(t, repository,
		"walker", quickWith("versions: {policy: all, labels: {stable: 1}}",
			"traffic: {split: [{slot: a, version: 1, weight: 1}]}"))
	r := serveFrom(t, repository, watched)
	r.until(t, "both versions are ready", func(m *weftv1.Model) bool { return ready(m) == "[1 2]" })
	client, admin := weftv1.NewPredictionServiceClient(r.conn), weftv1.NewAdminServiceClient(r.admin)
	ask := func(episode string, end bool) *weftv1.PredictResponse {
		t.Helper()
		req := weftest.Request("walker", 1)
		req.EpisodeId, req.EndOfEpisode = episode, end
		answer, err := client.Predict(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	if got := ask("e1", false); got.GetModel().GetVersion() != 1 || got.GetExecution().GetSlot() != "a" {
		t.Fatalf("version %d in slot %q answered, want 1 in a", got.GetModel().GetVersion(),
			got.GetExecution().GetSlot())
	}

	before, err := weftv1.NewModelServiceClient(r.conn).GetTraffic(t.Context(),
		&weftv1.GetTrafficRequest{Model: "walker"})
	if err != nil {
		t.Fatal(err)
	}
	change := &weftv1.SetTrafficRequest{Model: "walker", Traffic: &weftv1.Traffic{
		Split: []*weftv1.TrafficSlot{{Slot: "b", Version: 2, Weight: 1}}, Revision: before.GetTraffic().GetRevision(),
	}}
	if _, err := admin.SetTraffic(t.Context(), change); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.SetTraffic(t.Context(), change); status.Code(err) != codes.Aborted {
		t.Errorf("the same change again: %v, want Aborted because the revision is another", err)
	}
	if got := ask("e1", false).GetModel().GetVersion(); got != 1 {
		t.Errorf("the running episode went to version %d", got)
	}
	if got := ask("e2", false); got.GetModel().GetVersion() != 2 || got.GetExecution().GetSlot() != "b" {
		t.Errorf("a new episode went to version %d in slot %q", got.GetModel().GetVersion(),
			got.GetExecution().GetSlot())
	}
	ask("e1", true)
	if got := ask("e1", false).GetModel().GetVersion(); got != 2 {
		t.Errorf("after its end the episode went to version %d", got)
	}

	for name, bad := range map[string]*weftv1.Traffic{
		"no such version": {Split: []*weftv1.TrafficSlot{{Slot: "b", Version: 7, Weight: 1}}},
		"no weight":       {Split: []*weftv1.TrafficSlot{{Slot: "b", Version: 2}}},
	} {
		if _, err := admin.SetTraffic(t.Context(),
			&weftv1.SetTrafficRequest{Model: "walker", Traffic: bad}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := admin.UnloadVersion(t.Context(),
		&weftv1.UnloadVersionRequest{Model: "walker", Version: 1}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("unloading a version that a label names: %v", err)
	}
	moved, err := admin.SetLabel(t.Context(), &weftv1.SetLabelRequest{Model: "walker", Label: "stable", Version: 2})
	if err != nil || !moved.GetPersisted() {
		t.Fatalf("moving a label: %v, %v", moved, err)
	}
	if _, err := admin.UnloadVersion(t.Context(),
		&weftv1.UnloadVersionRequest{Model: "walker", Version: 1}); err != nil {
		t.Errorf("unloading a version that nothing names: %v", err)
	}
}

// TestNewVersionWaitsForEpisodes adds a version while an episode runs on the one before: that stays until the episode
// has ended.
func TestNewVersionWaitsForEpisodes(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 3 seconds")
	}
	repository := t.TempDir()
	weftest.AddVersion(t, repository, "walker", 1)
	weftest.SetManifest(t, repository, "walker", quick)
	r := serveFrom(t, repository, watched)
	r.awaitReady(t)
	client := weftv1.NewPredictionServiceClient(r.conn)
	ask := func(episode string, end bool) int64 {
		t.Helper()
		req := weftest.Request("walker", 1)
		req.EpisodeId, req.EndOfEpisode = episode, end
		answer, err := client.Predict(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		return answer.GetModel().GetVersion()
	}
	ask("running", false)
	weftest.AddVersion(t, repository, "walker", 2)
	r.until(t, "both versions are ready", func(m *weftv1.Model) bool { return ready(m) == "[1 2]" })
	if old, fresh := ask("running", false), ask("new", false); old != 1 || fresh != 2 {
		t.Errorf("the running episode is on version %d, a new one on %d; want 1 and 2", old, fresh)
	}
	ask("running", true)
	r.until(t, "version 2 alone is ready", func(m *weftv1.Model) bool { return ready(m) == "[2]" })
}

// TestLastModelIsRemoved removes the only model of a repository, and adds it again.
func TestLastModelIsRemoved(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 3 seconds")
	}
	repository := t.TempDir()
	add := func() {
		weftest.AddVersion(t, repository, "walker", 1)
		weftest.SetManifest(t, repository, "walker", quick)
	}
	add()
	r := serveFrom(t, repository, watched)
	r.awaitReady(t)
	if err := os.RemoveAll(filepath.Join(repository, "walker")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), weftest.Patience)
	defer cancel()
	for tick := time.NewTicker(10 * time.Millisecond); ; {
		models, err := weftv1.NewModelServiceClient(r.conn).ListModels(ctx, &weftv1.ListModelsRequest{})
		if err != nil {
			t.Fatalf("the model is still served: %v", err)
		}
		if len(models.GetModels()) == 0 {
			break
		}
		<-tick.C
	}
	if ended, errs := weftest.Predict(t.Context(), r.conn, "walker", "x", 1); ended[codes.NotFound] != 1 {
		t.Errorf("ended %v: %v; want NotFound", ended, errs)
	}
	add()
	r.until(t, "the model is back", func(m *weftv1.Model) bool { return ready(m) == "[1]" })
}

// TestVersionsByHand loads and unloads versions of a repository that is not watched.
func TestVersionsByHand(t *testing.T) {
	repository := t.TempDir()
	weftest.AddVersion(t, repository, "walker", 1)
	weftest.SetManifest(t, repository, "walker", quick)
	r := serveFrom(t, repository, func(c *App) { c.WatchInterval = 0 })
	r.awaitReady(t)
	admin := weftv1.NewAdminServiceClient(r.admin)
	load := func(version int64) (*weftv1.LoadVersionResponse, error) {
		return admin.LoadVersion(t.Context(), &weftv1.LoadVersionRequest{Model: "walker", Version: version})
	}
	if _, err := load(2); status.Code(err) != codes.NotFound {
		t.Errorf("loading a version that is not there: %v", err)
	}
	weftest.AddVersion(t, repository, "walker", 2)
	loaded, err := load(2)
	if err != nil || ready(loaded.GetModel()) != "[1 2]" {
		t.Errorf("loading a version that was added: %v, %v", loaded, err)
	}
	weftest.SetManifest(t, repository, "walker", "synth: {base: soon}")
	if _, err := load(2); status.Code(err) != codes.FailedPrecondition ||
		!strings.Contains(err.Error(), "walker/model.yaml:1:9: synth.base: expected a duration") ||
		strings.Contains(err.Error(), "soon") {
		t.Errorf("loading a version of a model whose manifest is faulty: %v", err)
	}
	for version := int64(1); version <= 2; version++ {
		if _, err := admin.UnloadVersion(t.Context(),
			&weftv1.UnloadVersionRequest{Model: "walker", Version: version}); err != nil {
			t.Error(err)
		}
	}
	r.until(t, "the model has no version", func(m *weftv1.Model) bool { return len(m.GetVersions()) == 0 })
	_, err = weftv1.NewPredictionServiceClient(r.conn).Predict(t.Context(), weftest.Request("walker", 1))
	if status.Code(err) != codes.NotFound ||
		!strings.Contains(err.Error(), "unloaded by hand; load one with LoadVersion") {
		t.Errorf("a request to a model without versions: %v", err)
	}
}

// TestMissingVersionsTakeNothingDown serves a model whose labels and traffic name a version that is not there: the
// versions that are there are served, versions come and go, and only requests for the missing one fail.
func TestMissingVersionsTakeNothingDown(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 4 seconds")
	}
	repository := t.TempDir()
	weftest.AddVersion(t, repository, "walker", 1)
	weftest.SetManifest(t, repository,
		"walker", quickWith("versions: {policy: {latest: 1}, labels: {stable: 9, old: 1}}",
			"traffic: {split: [{slot: a, version: 9, weight: 99}, {slot: b, version: 1, weight: 1}]}"))
	r := serveFrom(t, repository, watched)
	r.awaitReady(t)
	client, admin := weftv1.NewPredictionServiceClient(r.conn), weftv1.NewAdminServiceClient(r.admin)
	answer, err := client.Predict(t.Context(), weftest.Request("walker", 1))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; answer.GetExecution().GetFailedOverFrom() != 9; i++ {
		if answer.GetModel().GetVersion() != 1 || i > 1000 {
			t.Fatalf("version %d answered, for %d", answer.GetModel().GetVersion(),
				answer.GetExecution().GetFailedOverFrom())
		}
		req := weftest.Request("walker", 1)
		req.RequestId = strconv.Itoa(i)
		if answer, err = client.Predict(t.Context(), req); err != nil {
			t.Fatal(err)
		}
	}
	byLabel := weftest.Request("walker", 1)
	byLabel.Model.VersionChoice = &weftv1.ModelSpec_Label{Label: "stable"}
	_, err = client.Predict(t.Context(), byLabel)
	if want := `the label "stable" of model "walker" names version 9, which is not there; there is 1`; status.Code(
		err) != codes.NotFound ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("a request by the label of a missing version: %v\nwant NotFound, %s", err, want)
	}

	weftest.AddVersion(t, repository, "walker", 5)
	r.until(t, "a version that is added is ready", func(m *weftv1.Model) bool { return ready(m) == "[1 5]" })
	if err := os.RemoveAll(filepath.Join(repository, "walker", "1")); err != nil {
		t.Fatal(err)
	}
	weftest.AddVersion(t, repository, "walker", 6)
	r.until(t, "another one takes its place, beside the one that is named",
		func(m *weftv1.Model) bool { return ready(m) == "[1 6]" })
	if _, err := admin.LoadVersion(t.Context(), &weftv1.LoadVersionRequest{Model: "walker", Version: 5}); err != nil {
		t.Errorf("loading a version by hand: %v", err)
	}
	weftest.AddVersion(t, repository, "walker", 9)
	r.until(t, "what was missing is ready", func(m *weftv1.Model) bool { return strings.Contains(ready(m), " 9]") })
	if answer, err = client.Predict(t.Context(), byLabel); err != nil || answer.GetModel().GetVersion() != 9 {
		t.Errorf("version %d, %v; want 9", answer.GetModel().GetVersion(), err)
	}
}

// quickWith is quick with more lines.
func quickWith(lines ...string) string {
	return quick + "\n" + strings.Join(lines, "\n")
}

// TestShadowAndOutcomes shows version 2 the requests of version 1, and leads it through a rollout by the reported
// outcomes.
func TestShadowAndOutcomes(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 2 seconds")
	}
	repository := t.TempDir()
	for version := 1; version <= 2; version++ {
		weftest.AddVersion(t, repository, "walker", version)
	}
	weftest.SetManifest(t, repository, "walker", quickWith("versions: {policy: all}",
		"traffic: {split: [{slot: a, version: 1, weight: 1}], shadow: [{version: 2, sample: 1.0}]}"))
	r := serveFrom(t, repository, nil)
	r.until(t, "both versions are ready", func(m *weftv1.Model) bool { return ready(m) == "[1 2]" })
	client, admin, models := weftv1.NewPredictionServiceClient(r.conn), weftv1.NewAdminServiceClient(r.admin),
		weftv1.NewModelServiceClient(r.conn)
	play := func(episode string, reward func(version int64) float64) {
		t.Helper()
		req := weftest.Request("walker", 1)
		req.EpisodeId = episode
		answer, err := client.Predict(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.ReportOutcome(t.Context(), &weftv1.ReportOutcomeRequest{
			Model: &weftv1.ModelSpec{Name: "walker"}, EpisodeId: episode,
			Reward: new(reward(answer.GetModel().GetVersion())),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), weftest.Patience)
	defer cancel()
	const shown = 20
	for i := range shown {
		play(fmt.Sprintf("s%d", i), func(int64) float64 { return 1 })
	}
	var summary *weftv1.ShadowSummary
	for summary.GetDone() < shown {
		answer, err := models.GetShadowSummary(ctx, &weftv1.GetShadowSummaryRequest{Model: "walker"})
		if err != nil {
			t.Fatal(err)
		}
		if len(answer.GetSummaries()) > 0 {
			summary = answer.GetSummaries()[0]
		}
		if summary.GetDropped()+summary.GetFailed() > 0 {
			t.Fatalf("on an idle server a shadow lost requests: %v", summary)
		}
	}
	// Both versions are the same synthetic model.
	if summary.GetAgreed() != shown || summary.GetPrimaryVersion() != 1 || summary.GetShadowVersion() != 2 {
		t.Errorf("summary %v, want %d that agree", summary, shown)
	}

	start := &weftv1.StartRolloutRequest{Rollout: &weftv1.Rollout{
		Model: "walker", BaselineVersion: 1, CandidateVersion: 2, Automatic: true, Stages: []float64{50, 100},
		Gate: &weftv1.Gate{
			MinRequests: 10, MinEpisodes: 10, MaxLatencyRatio: 1000, Outcome: "reward", OutcomeMin: new(0.0),
			OutcomeMax: new(30.0), MaxErrorRate: 0.2, MaxFailureIncrease: 0.2, MaxLostIncrease: 0.2,
		},
	}}
	start.Rollout.StageDuration = durationpb.New(time.Millisecond)
	if _, err := admin.StartRollout(t.Context(), start); err != nil {
		t.Fatal(err)
	}
	for i := 0; ; i++ {
		play(fmt.Sprintf("r%d", i), func(version int64) float64 { return float64(10*version) + float64(i%3) })
		answer, err := models.GetRollout(ctx, &weftv1.GetRolloutRequest{Model: "walker"})
		if err != nil {
			t.Fatal(err)
		}
		rollout := answer.GetRollout()
		if rollout.GetState() != weftv1.RolloutState_ROLLOUT_STATE_RUNNING {
			if rollout.GetState() != weftv1.RolloutState_ROLLOUT_STATE_PROMOTED {
				t.Errorf("the better version was not promoted: %v", rollout)
			}
			for name, e := range map[string]*weftv1.EpisodeCounts{
				"baseline":  rollout.GetReport().GetBaselineEpisodes(),
				"candidate": rollout.GetReport().GetCandidateEpisodes(),
			} {
				if e.GetReported() < 10 || e.GetBegun() != e.GetReported() || e.GetLost() != 0 {
					t.Errorf("episodes of the %s: %v, want at least 10 reported, and none lost", name, e)
				}
			}
			if all := rollout.GetReport().GetCodes(); len(all) != 1 || all[0].GetCode() != "OK" ||
				all[0].GetCandidate() < 10 {
				t.Errorf("codes of the last stage: %v, want at least 10 of the candidate answered", all)
			}
			break
		}
	}
	traffic, err := models.GetTraffic(t.Context(), &weftv1.GetTrafficRequest{Model: "walker"})
	if err != nil || len(traffic.GetTraffic().GetSplit()) != 1 ||
		traffic.GetTraffic().GetSplit()[0].GetVersion() != 2 || len(traffic.GetTraffic().GetShadow()) != 1 {
		t.Errorf("traffic after the promotion: %v, %v; want all for version 2, and the shadow as it was", traffic, err)
	}
}

// TestRecording records requests, the last one unanswerable, and reads them again: as they were sent, with
// their answers and errors.
func TestRecording(t *testing.T) {
	repository, recordings := t.TempDir(), t.TempDir()
	weftest.AddVersion(t, repository, "walker", 1)
	weftest.SetManifest(t, repository, "walker", quick)
	var (
		sent    []*weftv1.PredictRequest
		answers []*weftv1.PredictResponse
		errs    []error
	)
	began := time.Now()
	t.Run("serve", func(t *testing.T) {
		r := serveFrom(t, repository, func(c *App) { c.Record = recordings })
		r.awaitReady(t)
		ctx, cancel := context.WithTimeout(t.Context(), weftest.Patience)
		defer cancel()
		for i := range 7 {
			req := weftest.Request("walker", float32(i))
			req.RequestId, req.EpisodeId = fmt.Sprint("r", i), fmt.Sprint("e", i)
			if i == 6 {
				req.Inputs["x"].Shape = []int64{1, 5}
			}
			answer, err := weftv1.NewPredictionServiceClient(r.conn).Predict(ctx, req)
			sent, answers, errs = append(sent, req), append(answers, answer), append(errs, err)
		}
	})
	ended := time.Now()
	files, err := filepath.Glob(filepath.Join(recordings, "*.weftrec"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recording: %v, %v", files, err)
	}
	reader, err := record.Open(files...)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for entry, err := range reader.Entries() {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n > len(sent) {
			continue
		}
		req, answer, err := sent[n-1], answers[n-1], errs[n-1]
		want := &record.Entry{
			Code: status.Code(err).String(), Message: status.Convert(err).Message(),
			Model: "walker", Version: 1, Slot: "prod", Episode: req.GetEpisodeId(), Request: req, Response: answer,
		}
		if diff := cmp.Diff(want, entry, protocmp.Transform(), cmpopts.IgnoreFields(record.Entry{}, "At", "LimitUs",
			"QueueUs", "ComputeUs", "DeviceUs", "Device", "BatchRequests", "BatchRows", "Executions",
			"FlushReason")); diff != "" {
			t.Errorf("entry %d (-sent and answered +recorded):\n%s", n, diff)
		}
		if entry.At.Before(began) || entry.At.After(ended) || entry.LimitUs <= 0 ||
			entry.LimitUs > weftest.Patience.Microseconds() {
			t.Errorf("entry %d is of %v, limit %d us; want a time from %v to %v, and the limit of %v", n, entry.At,
				entry.LimitUs, began, ended, weftest.Patience)
		}
		if x := answer.GetExecution(); entry.ComputeUs != x.GetComputeUs() || entry.Device != x.GetDevice() ||
			entry.Executions != x.GetExecutions() {
			t.Errorf("entry %d is %+v, the answer said %v", n, entry, x)
		}
	}
	if n != len(sent) || status.Code(errs[len(sent)-1]) != codes.InvalidArgument {
		t.Errorf("%d entries, want %d, and the last request refused: %v", n, len(sent), errs)
	}
	t.Run("within a limit", func(t *testing.T) {
		r := serveFrom(t, repository, func(c *App) { c.Record, c.RecordLimit = recordings, 1 })
		r.awaitReady(t)
		weftest.Predict(t.Context(), r.conn, "walker", "x", 1)
	})
	for _, file := range files {
		if _, err := os.Stat(file); !os.IsNotExist(err) {
			t.Errorf("beyond the limit the recording of an earlier run is still there: %v", err)
		}
	}
}
