package modelrepo_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/runtime/modelrepo"
)

// diary writes down listings, each with the seconds that have passed.
type diary struct {
	t      *testing.T
	tmp    string
	start  time.Time
	prints map[string]string // short names of fingerprints
	lines  []string
}

func newDiary(t *testing.T, tmp string) *diary {
	return &diary{t: t, tmp: tmp, start: time.Now(), prints: map[string]string{}}
}

// print gives a fingerprint the name A, the next one B, and so on.
func (d *diary) print(v modelrepo.Version) string {
	if v.Fingerprint == "" {
		return "-"
	}
	if d.prints[v.Fingerprint] == "" {
		d.prints[v.Fingerprint] = string(rune('A' + len(d.prints)))
	}
	return d.prints[v.Fingerprint]
}

func (d *diary) write(l modelrepo.Listing) {
	var b strings.Builder
	fmt.Fprintf(&b, "%.2f:", time.Since(d.start).Seconds())
	for _, fault := range l.Faults {
		fmt.Fprintf(&b, " fault: %v", fault)
	}
	for _, m := range l.Models {
		fmt.Fprintf(&b, " %s%s", m.Name, numbers(m.Selected))
		for _, v := range m.Versions {
			fmt.Fprintf(&b, " %d%s", v.Number, d.print(v))
			if v.Held {
				b.WriteString("~")
			}
			if v.Err != nil {
				fmt.Fprintf(&b, "(%v)", v.Err)
			}
		}
		if m.Err != nil {
			fmt.Fprintf(&b, " error: %v", m.Err)
		}
		if m.Manifest.Weight != 1 {
			fmt.Fprintf(&b, " weight %v", m.Manifest.Weight)
		}
	}
	d.lines = append(d.lines, strings.ReplaceAll(b.String(), d.tmp, "TMP"))
}

// step is something that happens to the files, at a time in seconds.
type step struct {
	at float64
	do func(t *testing.T, repo string)
}

func put(name, content string) func(*testing.T, string) {
	return func(t *testing.T, repo string) { build(t, repo, map[string]string{name: content}) }
}

func remove(name string) func(*testing.T, string) {
	return func(t *testing.T, repo string) {
		if err := os.RemoveAll(filepath.Join(repo, name)); err != nil {
			t.Fatal(err)
		}
	}
}

func rename(from, to string) func(*testing.T, string) {
	return func(t *testing.T, repo string) {
		if err := os.Rename(filepath.Join(repo, from), filepath.Join(repo, to)); err != nil {
			t.Fatal(err)
		}
	}
}

// ensemble is a config.pbtxt with one step.
func ensemble(batch int, a, b string) string {
	return fmt.Sprintf("platform: \"ensemble\"\nmax_batch_size: %d\n"+
		"input [ { name: \"L\" data_type: TYPE_FP32 dims: 2 }, { name: \"R\" data_type: TYPE_FP32 dims: 2 } ]\n"+
		"output { name: \"y\" data_type: TYPE_FP32 dims: 2 }\n"+
		"ensemble_scheduling { step {\nmodel_name: \"m\"\nmodel_version: 1 input_map { key: \"a\" value: %q } "+
		"input_map { key: \"b\" value: %q } output_map { key: \"y\" value: \"y\" } } }\n", batch, a, b)
}

const copying = "is still being copied: it changed within the last 1s, and is looked at again when that is over"

// TestWatch polls every 5 s, with scans in between while something is not quiet for 1 s, and so at times that are
// known.
func TestWatch(t *testing.T) {
	for name, tt := range map[string]struct {
		files map[string]string
		steps []step
		want  []string
	}{
		"nothing happens": {
			files: map[string]string{"m/1/model.onnx": "m"},
			want:  []string{"1.00: m[1] 1A"},
		},
		"a version is added slowly": {
			files: map[string]string{"m/1/model.onnx": "m"},
			steps: []step{
				{5.5, put("m/2/weights.bin", "w")},
				{6.5, put("m/2/weights.bin", "we")}, // seen at 6, seen otherwise at 7
				{7.5, put("m/2/model.onnx", "")},
				{8.5, put("m/2/model.onnx", "mo")},
				{9.5, put("m/2/model.onnx", "mod")},
			},
			want: []string{
				"1.00: m[1] 1A",
				"6.00: m[1] 1A 2-(TMP/repo/m/2 " + copying + ")",
				"11.00: m[2] 1A 2B",
			},
		},
		"a program copies under another name": {
			files: map[string]string{"m/1/model.onnx": "m"},
			steps: []step{
				{5.5, put("m/2/model.onnx", "m")},
				{5.6, put("m/2/.weights.bin.x7", "w")},
				{6.5, put("m/2/.weights.bin.x7", "we")},
				{7.5, put("m/2/.weights.bin.x7", "weights")},
				{8.5, rename("m/2/.weights.bin.x7", "m/2/weights.bin")},
			},
			want: []string{
				"1.00: m[1] 1A",
				"6.00: m[1] 1A 2-(TMP/repo/m/2 " + copying + ")",
				"10.00: m[2] 1A 2B",
			},
		},
		"a version is replaced in place": {
			files: map[string]string{"m/1/model.onnx": "m"},
			steps: []step{
				{5.5, remove("m/1/model.onnx")},
				{6.5, put("m/1/model.onnx", "ne")},
				{7.5, put("m/1/model.onnx", "new")},
			},
			want: []string{"1.00: m[1] 1A", "9.00: m[1] 1B"},
		},
		"a version is replaced while another one is added": {
			files: map[string]string{"m/1/model.onnx": "m"},
			steps: []step{{5.5, put("m/1/model.onnx", "new")}, {5.6, put("m/2/model.onnx", "m")}},
			want: []string{
				"1.00: m[1] 1A",
				"6.00: m[1] 1A~ 2-(TMP/repo/m/2 " + copying + ")", // 1 is held
				"7.00: m[2] 1B 2C",
			},
		},
		"a step of a pipeline is replaced, goes, and comes again": {
			files: map[string]string{
				"m/1/model.onnx": "m", "n/1/model.onnx": "m",
				"p/1/pipeline.yaml": "steps: [{name: s, model: m, version: 1, inputs: {x: x}}]\noutputs: {y: s.y}\n",
			},
			steps: []step{
				{5.5, put("m/1/model.onnx", "new")},
				{15.5, remove("m")},
				{25.5, put("m/1/model.onnx", "again")},
			},
			want: []string{
				"1.00: m[1] 1A n[1] 1B p[1] 1C",
				"7.00: m[1] 1D n[1] 1B p[1] 1E",
				"18.00: n[1] 1B p[1] 1E",
				"28.00: m[] error: TMP/repo/m " + copying + " n[1] 1B p[1] 1E",
				"29.00: m[1] 1F n[1] 1B p[1] 1G",
			},
		},
		"an ensemble is wired otherwise, has another setting, and loses its step": {
			files: map[string]string{"m/1/model.onnx": "m", "e/1/.gitkeep": "", "e/config.pbtxt": ensemble(8, "L", "R")},
			steps: []step{
				{5.5, put("e/config.pbtxt", ensemble(8, "R", "L"))},
				{10.5, put("e/config.pbtxt", ensemble(16, "R", "L"))},
				{15.5, remove("m")},
				{20.5, put("e/config.pbtxt", ensemble(16, "L", "R"))},
			},
			want: []string{
				"1.00: e[1] 1A m[1] 1B",
				"7.00: e[1] 1C m[1] 1B",
				"13.00: e[1] 1C m[1] 1B",
				"19.00: e[1] 1C",
				"25.00: e[] 1D(TMP/repo/e/config.pbtxt:6:1: ensemble_scheduling.step[0].model_name: the repository has no such " +
					"model; expected the name of one, found \"m\"\n    6 | model_name: \"m\"\n      | ^)",
			},
		},
		"a pipeline is written anew": {
			files: map[string]string{
				"m/1/model.onnx": "m", "p/1/pipeline.yaml": "steps: [{name: s, model: m, version: 1}]\noutputs: {y: s.y}\n",
			},
			steps: []step{{5.5, put("p/1/pipeline.yaml", "steps: [{name: s, model: m, version: 2}]\noutputs: {y: s.y}\n")}},
			want: []string{
				"1.00: m[1] 1A p[1] 1B",
				"7.00: m[1] 1A p[] 1C(TMP/repo/p/1/pipeline.yaml:1:29: steps[0].version: model m has no such version; " +
					"expected one of 1, found 2\n    1 | steps: [{name: s, model: m, version: 2}]\n      |                             ^)",
			},
		},
		"a pipeline goes": {
			files: map[string]string{
				"m/1/model.onnx":    "m",
				"p/1/pipeline.yaml": "steps: [{name: s, model: m, version: 1, inputs: {x: x}}]\noutputs: {y: s.y}\n",
				"p/2/pipeline.yaml": "steps: [{name: s, model: m, version: 1, inputs: {x: x}}]\noutputs: {y: s.y}\n",
			},
			steps: []step{{5.5, remove("p/2")}},
			want:  []string{"1.00: m[1] 1A p[2] 1B 2C", "7.00: m[1] 1A p[1] 1B"},
		},
		"a pipeline comes before its step": {
			files: map[string]string{"n/1/model.onnx": "m"},
			steps: []step{
				{5.5, put("p/1/pipeline.yaml", "steps: [{name: s, model: m, version: 1, inputs: {x: x}}]\noutputs: {y: s.y}\n")},
				{15.5, put("m/1/model.onnx", "new")},
			},
			want: []string{
				"1.00: n[1] 1A",
				"6.00: n[1] 1A p[] error: TMP/repo/p " + copying,
				"7.00: n[1] 1A p[] 1B(TMP/repo/p/1/pipeline.yaml:1:19: steps[0].model: the repository has no such model; " +
					"expected the name of one, found \"m\"\n" +
					"    1 | steps: [{name: s, model: m, version: 1, inputs: {x: x}}]\n      |                   ^)",
				"17.00: m[] error: TMP/repo/m " + copying + " n[1] 1A p[] 1-(TMP/repo/m " + copying + ")",
				"18.00: m[1] 1C n[1] 1A p[1] 1D",
			},
		},
		"a link to a version is swapped": {
			files: map[string]string{
				"m/.store/a/model.onnx": "m", "m/.store/b/model.onnx": "m", "m/1": "-> .store/a",
				"m/.new": "-> .store/b",
			},
			steps: []step{{5.5, rename("m/.new", "m/1")}},
			want:  []string{"1.00: m[1] 1A", "7.00: m[1] 1B"},
		},
		"a link is removed and made again": {
			files: map[string]string{"m/.store/a/model.onnx": "m", "m/1": "-> .store/a"},
			steps: []step{{5.5, remove("m/1")}, {6.5, put("m/1", "-> .store/a")}},
			want:  []string{"1.00: m[1] 1A"},
		},
		"a version comes, goes and comes again": {
			files: map[string]string{"m/1/model.onnx": "m", "m/.two/model.onnx": "m"},
			steps: []step{
				{5.5, rename("m/.two", "m/2")},
				{6.5, rename("m/2", "m/.two")},
				{10.5, rename("m/.two", "m/2")},
			},
			want: []string{
				"1.00: m[1] 1A",
				"6.00: m[1] 1A 2-(TMP/repo/m/2 " + copying + ")",
				"7.00: m[1] 1A",
				"12.00: m[1] 1A 2-(TMP/repo/m/2 " + copying + ")",
				"13.00: m[2] 1A 2B",
			},
		},
		"a version is removed": {
			files: map[string]string{"m/1/model.onnx": "m", "m/2/model.onnx": "mm"},
			steps: []step{{5.5, remove("m/2")}},
			want:  []string{"1.00: m[2] 1A 2B", "7.00: m[1] 1A"},
		},
		"a version is emptied": {
			files: map[string]string{"m/1/model.onnx": "m", "m/2/model.onnx": "mm"},
			steps: []step{{5.5, put("m/2/model.onnx", "")}},
			want: []string{
				"1.00: m[2] 1A 2B",
				"7.00: m[1] 1A 2C(TMP/repo/m/2/model.onnx is empty; expected an ONNX model (is it still being " +
					"copied?))",
			},
		},
		"a version never becomes quiet while the watch begins": {
			files: map[string]string{"m/1/model.onnx": "m", "m/2/model.onnx": "m"},
			steps: []step{{0.5, put("m/2/model.onnx", "mo")}, {1.5, put("m/2/model.onnx", "mod")}},
			want:  []string{"1.00: m[1] 1A 2-(TMP/repo/m/2 " + copying + ")", "3.00: m[2] 1A 2B"},
		},
		"a manifest is written in two parts": {
			files: map[string]string{"m/1/model.onnx": "m", "m/model.yaml": "weight: 2"},
			steps: []step{{5.5, put("m/model.yaml", "")}, {6.5, put("m/model.yaml", "weight: 3")}},
			want:  []string{"1.00: m[1] 1A weight 2", "8.00: m[1] 1A weight 3"},
		},
		"a manifest is replaced": {
			files: map[string]string{"m/1/model.onnx": "m", "m/model.yaml": "weight: 2"},
			steps: []step{{5.5, remove("m/model.yaml")}, {6.5, put("m/model.yaml", "weight: 2")}},
			want:  []string{"1.00: m[1] 1A weight 2"},
		},
		"a manifest becomes faulty and right again": {
			files: map[string]string{"m/1/model.onnx": "m", "n/1/model.onnx": "n"},
			steps: []step{{5.5, put("m/model.yaml", "wieght: 2")}, {10.5, put("m/model.yaml", "weight: 2")}},
			want: []string{
				"1.00: m[1] 1A n[1] 1B",
				"7.00: m[] error: TMP/repo/m/model.yaml:1:1: wieght: unknown key; did you mean \"weight\"?\n    1 | " +
					"wieght: 2\n      | ^ n[1] 1B",
				"13.00: m[1] 1A weight 2 n[1] 1B",
			},
		},
		"a faulty weight stays faulty": { // and is not a change each time
			files: map[string]string{
				"m/1/model.onnx": "m",
				"m/model.yaml":   "traffic: {split: [{slot: a, version: 1}]}",
			},
			want: []string{
				"1.00: m[] error: TMP/repo/m/model.yaml:1:19: traffic.split[0]: weight is missing; expected a share " +
					"such as 90, or 0 for no new episodes\n" +
					"    1 | traffic: {split: [{slot: a, version: 1}]}\n      |                   ^",
			},
		},
		"a model comes and goes": {
			files: map[string]string{"m/1/model.onnx": "m"},
			steps: []step{{5.5, put("n/1/model.onnx", "n")}, {10.5, remove("n")}},
			want: []string{
				"1.00: m[1] 1A",
				"6.00: m[1] 1A n[] error: TMP/repo/n " + copying,
				"7.00: m[1] 1A n[1] 1B",
				"13.00: m[1] 1A",
			},
		},
		"the repository is away for a while": {
			files: map[string]string{"m/1/model.onnx": "m"},
			steps: []step{{5.5, rename("", "../away")}, {15.5, rename("../away", "")}},
			want: []string{
				"1.00: m[1] 1A",
				"6.00: fault: not a model repository: open TMP/repo: no such file or directory m[1] 1A",
				"16.00: m[1] 1A",
			},
		},
		"the last model goes": {
			files: map[string]string{"m/1/model.onnx": "m"},
			steps: []step{{5.5, remove("m")}, {10.5, put("n/1/model.onnx", "n")}},
			want: []string{
				"1.00: m[1] 1A",
				"7.00:",
				"12.00: n[] error: TMP/repo/n " + copying,
				"13.00: n[1] 1B",
			},
		},
		"the last model goes before the watch has shown anything": {
			files: map[string]string{"m/1/model.onnx": "m"},
			steps: []step{{0.5, remove("m")}},
			want:  []string{"1.00: m[] error: TMP/repo/m " + copying, "2.00:"},
		},
		"another directory, an empty one, is there for a while": { // what was mounted is not
			files: map[string]string{"m/1/model.onnx": "m"},
			steps: []step{
				{5.5, rename("", "../away")},
				{5.6, put("/", "")},
				{20.5, remove("")},
				{20.6, rename("../away", "")},
				{30.5, remove("m")},
			},
			want: []string{
				"1.00: m[1] 1A",
				"7.00: fault: not a model repository: TMP/repo holds no model; expected <model>/<version>/model.onnx " +
					"and, if wanted, <model>/model.yaml in it",
				"22.00: m[] error: TMP/repo/m " + copying,
				"23.00: m[1] 1A",
				"34.00:",
			},
		},
		"the link to the repository leads to an empty one": {
			files: map[string]string{"../all/m/1/model.onnx": "m", "../none/": "", "": "-> all"},
			steps: []step{{5.5, remove("")}, {5.6, put("", "-> none")}},
			want: []string{
				"1.00: m[1] 1A",
				"7.00: fault: not a model repository: TMP/repo holds no model; expected <model>/<version>/model.onnx " +
					"and, if wanted, <model>/model.yaml in it",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tmp := t.TempDir()
				repo := filepath.Join(tmp, "repo")
				build(t, repo, tt.files)
				r, err := modelrepo.Open(repo)
				if err != nil {
					t.Fatal(err)
				}
				var log bytes.Buffer
				w := modelrepo.WatchConfig{
					Interval: 5 * time.Second,
					Logger:   slog.New(slog.NewTextHandler(&log, nil)),
				}.WithoutEvents()
				d := newDiary(t, tmp)
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error)
				go func() { done <- r.Watch(ctx, w, d.write) }()
				for _, s := range tt.steps {
					time.Sleep(time.Until(d.start.Add(time.Duration(s.at * float64(time.Second)))))
					s.do(t, repo)
				}
				time.Sleep(time.Until(d.start.Add(time.Minute)))
				cancel()
				if err := <-done; err != nil {
					t.Errorf("Watch: %v", err)
				}
				if diff := cmp.Diff(tt.want, d.lines); diff != "" {
					t.Errorf("listings (-want +got):\n%s", diff)
				}
				if n := strings.Count(log.String(), "event=repository_events_missing"); n != 1 ||
					!strings.Contains(log.String(), "no events here") {
					t.Errorf("the lack of events was logged %d times:\n%s", n, log.String())
				}
			})
		})
	}
}

// TestWatchByEvents has no poll to rely on: a change that does not come by events hangs.
func TestWatchByEvents(t *testing.T) {
	tmp := t.TempDir()
	repo := filepath.Join(tmp, "repo")
	build(t, repo, map[string]string{
		"m/1/model.onnx": "m", "m/.store/a/model.onnx": "m", "m/.store/b/model.onnx": "m",
		"m/2": "-> .store/a", "m/.new": "-> .store/b",
	})
	r, err := modelrepo.Open(repo)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	listings, done := make(chan modelrepo.Listing), make(chan error, 1)
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Watch: %v", err)
		}
	}()
	go func() {
		done <- r.Watch(ctx, modelrepo.WatchConfig{Interval: 24 * time.Hour, Settle: 200 * time.Millisecond},
			func(l modelrepo.Listing) {
				select {
				case listings <- l:
				case <-ctx.Done():
				}
			})
	}()
	d := newDiary(t, tmp)
	for _, s := range []struct {
		do   func(*testing.T, string)
		want string
	}{
		{func(*testing.T, string) {}, "m[2] 1A 2B"},
		{put("m/3/model.onnx", "m"), "m[3] 1A 2B 3C"},
		{put("m/1/model.onnx", "mm"), "m[3] 1D 2B 3C"},
		{put("m/model.yaml", "weight: 2"), "m[3] 1D 2B 3C weight 2"},
		{rename("m/.new", "m/2"), "m[3] 1D 2E 3C weight 2"},
		{put("m/2/more.bin", "in the directory that the link leads to now"), "m[3] 1D 2F 3C weight 2"},
		{put("m/3/data/weights.bin", "w"), "m[3] 1D 2F 3G weight 2"},
		{put("m/3/data/weights.bin", "ww"), "m[3] 1D 2F 3H weight 2"},
		{remove("m/3"), "m[2] 1D 2F weight 2"},
		{put("n/1/model.onnx", "n"), "m[2] 1D 2F weight 2 n[1] 1I"},
		{remove("m"), "n[1] 1I"},
	} {
		s.do(t, repo)
		for {
			l := <-listings
			if strings.Contains(fmt.Sprint(l.Err()), "copied") {
				continue
			}
			d.write(l)
			break
		}
		_, got, _ := strings.Cut(d.lines[len(d.lines)-1], ": ")
		if got != s.want {
			t.Fatalf("found %q, expected %q", got, s.want)
		}
	}
}

// TestWatchPausingWriters: versions that come or change while the repository is watched are taken only after a longer
// pause, and never while a program has one of their files open for writing.
func TestWatchPausingWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tmp := t.TempDir()
		repo := filepath.Join(tmp, "repo")
		build(t, repo, map[string]string{"m/1/model.onnx": "m", "m/2/model.onnx": "m"})
		r, err := modelrepo.Open(repo)
		if err != nil {
			t.Fatal(err)
		}
		d := newDiary(t, tmp)
		done := make(chan error)
		ctx, cancel := context.WithCancel(t.Context())
		ask := make(chan time.Duration, 1)
		w := modelrepo.WatchConfig{
			Interval: 5 * time.Second, Ask: ask, SettleLater: 3 * time.Second, Logger: slog.New(slog.DiscardHandler),
		}.WithoutEvents()
		writer, err := os.OpenFile(filepath.Join(repo, "m/2/model.onnx"), os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		go func() { done <- r.Watch(ctx, w, d.write) }()
		for _, s := range []step{
			{7.5, func(*testing.T, string) { _ = writer.Close() }},
			{11, put("m/1/model.onnx", "half")},    // seen at 13
			{14.5, put("m/1/model.onnx", "whole")}, // seen at 16
			{40, func(*testing.T, string) { ask <- time.Second }},
			{41.5, put("m/1/model.onnx", "another")}, // seen at 42
			{60, func(*testing.T, string) {}},
		} {
			time.Sleep(time.Until(d.start.Add(time.Duration(s.at * float64(time.Second)))))
			s.do(t, repo)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Watch: %v", err)
		}
		want := []string{
			"1.00: m[1] 1A 2-(TMP/repo/m/2/model.onnx is still being copied: a program has it open for writing, and it is " +
				"looked at again when that is over)",
			"8.00: m[2] 1A 2B",
			"19.00: m[2] 1C 2B", // a second of quiet would have taken the half at 14
			"43.00: m[2] 1D 2B", // files need not be quiet for longer than an interval
		}
		if diff := cmp.Diff(want, d.lines); diff != "" {
			t.Errorf("listings (-want +got):\n%s", diff)
		}
	})
}

func TestLackOfEventsIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	long := strings.Repeat("x", 5000) // no system watches that
	modelrepo.Follow(map[string]string{"/" + long: "1", "/y" + long: "2", t.TempDir() + "/gone": "3"},
		slog.New(slog.NewTextHandler(&log, nil)))
	if n := strings.Count(log.String(), "level=WARN"); n != 1 ||
		!strings.Contains(log.String(), "event=repository_events_missing") ||
		!strings.Contains(log.String(), "name too long") {
		t.Errorf("%d warnings:\n%s", n, log.String())
	}
	log.Reset()
	modelrepo.Follow(map[string]string{t.TempDir() + "/gone": "3"}, slog.New(slog.NewTextHandler(&log, nil)))
	if log.Len() > 0 {
		t.Errorf("a directory that has gone is no reason to warn:\n%s", log.String())
	}
}

func TestWatchRefusesNegativeTimes(t *testing.T) {
	r, err := modelrepo.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []modelrepo.WatchConfig{{Interval: -1}, {Settle: -1}} {
		if err := r.Watch(t.Context(), w, func(modelrepo.Listing) {}); err == nil {
			t.Errorf("%+v is accepted", w)
		}
	}
}

// TestWatchWhenAsked: without an interval the repository is looked at when somebody asks, and then until its content is
// quiet; with the interval that comes with a question, from then on by that.
func TestWatchWhenAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tmp := t.TempDir()
		repo := filepath.Join(tmp, "repo")
		build(t, repo, map[string]string{"m/1/model.onnx": "m"})
		r, err := modelrepo.Open(repo)
		if err != nil {
			t.Fatal(err)
		}
		d := newDiary(t, tmp)
		ask, done := make(chan time.Duration), make(chan error)
		ctx, cancel := context.WithCancel(t.Context())
		w := modelrepo.WatchConfig{Ask: ask, Logger: slog.New(slog.DiscardHandler)}.WithoutEvents()
		go func() { done <- r.Watch(ctx, w, d.write) }()
		for _, s := range []step{
			{100, put("m/2/model.onnx", "m")},
			{200, func(*testing.T, string) { ask <- 0 }},
			{300, put("m/3/model.onnx", "m")},
			{400, func(*testing.T, string) { ask <- 0 }},
			{400.2, func(*testing.T, string) { ask <- 0 }}, // which does not hold up the first
			{500, put("m/4/model.onnx", "m")},
			{600, func(*testing.T, string) { ask <- 5 * time.Second }},
			{702, put("m/5/model.onnx", "m")},
			{800, func(*testing.T, string) { ask <- 0 }},
			{800.5, put("m/6/model.onnx", "m")},
			{900, func(*testing.T, string) {}},
		} {
			time.Sleep(time.Until(d.start.Add(time.Duration(s.at * float64(time.Second)))))
			s.do(t, repo)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Watch: %v", err)
		}
		half := func(number int) string { return fmt.Sprintf(" %d-(TMP/repo/m/%d %s)", number, number, copying) }
		want := []string{
			"201.00: m[2] 1A 2B", "400.00: m[2] 1A 2B" + half(3), "401.00: m[3] 1A 2B 3C",
			"600.00: m[3] 1A 2B 3C" + half(4), "601.00: m[4] 1A 2B 3C 4D", "706.00: m[4] 1A 2B 3C 4D" + half(5),
			"707.00: m[5] 1A 2B 3C 4D 5E",
		}
		if diff := cmp.Diff(want, d.lines); diff != "" {
			t.Errorf("listings (-want +got):\n%s", diff)
		}
	})
}

// TestLooked returns when changed has heard of what was there at the call: not before anything counts as complete, nor
// after a scan that began earlier. Where nobody watches it ends with its context.
func TestLooked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := receiver(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.Looked(ctx); err == nil {
			t.Error("it does not wait for a watch")
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		upload := func() {
			u, content := anUpload("m", 0, modelrepo.ModelFile, "graph")
			if err := second(r.Receive(u, content)); err != nil {
				t.Error(err)
			}
		}
		highest, looked := int64(0), make(chan error)
		go func() {
			_ = r.Watch(ctx, modelrepo.WatchConfig{Logger: slog.New(slog.DiscardHandler)}.WithoutEvents(),
				func(l modelrepo.Listing) {
					if highest = l.Models[0].Versions[len(l.Models[0].Versions)-1].Number; highest == 2 {
						upload()
						go func() { looked <- r.Looked(ctx) }()
						time.Sleep(time.Second) // until it waits
					}
				})
		}()
		if err := r.Looked(ctx); err != nil || highest != 1 {
			t.Errorf("at first: %v, version %d was heard of", err, highest)
		}
		upload()
		if err := <-looked; err != nil || highest != 3 {
			t.Errorf("during a scan: %v, version %d was heard of", err, highest)
		}
		cancel()
		synctest.Wait()
	})
}
