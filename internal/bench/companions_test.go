package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weftserve/weft/internal/record"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/shadow"
)

// BenchmarkRealServerCompanions calls version 1 of the standard model, alone, with version 2 in its shadow, and with
// every request recorded, in turn, at 1.8 and 0.25 times its capacity. in-time and p99 are over those of version 1
// alone.
func BenchmarkRealServerCompanions(b *testing.B) {
	const span = 8 * time.Second
	for _, rate := range []float64{1500, 200} {
		b.Run(fmt.Sprintf("%v/s", rate), func(b *testing.B) {
			for b.Loop() {
				alone := companions{}.play(b, rate, span)
				shadowed := companions{shadow: true}.play(b, rate, span)
				recorded := companions{record: true}.play(b, rate, span)
				alone.report(b, alone.calls[0])
				for name, p := range map[string]played{"shadow": shadowed, "record": recorded} {
					c, base := p.calls[0], alone.calls[0]
					b.ReportMetric(float64(c.within(limit))/float64(base.within(limit)), name+"-in-time")
					b.ReportMetric(float64(c.quantile(0.99))/float64(base.quantile(0.99)), name+"-p99")
					b.ReportMetric(ms(c.lag()), name+"-lag-ms")
				}
			}
		})
	}
}

// companions are the kinds of work that a server does while it answers.
type companions struct{ shadow, record bool }

func (c companions) play(b *testing.B, rate float64, span time.Duration) played {
	b.Helper()
	manifest := standard + "\nversions: {policy: all}\ntraffic: {split: [{slot: a, version: 1, weight: 1}]"
	if c.shadow {
		manifest += ", shadow: [{version: 2, sample: 1}]"
	}
	repo := b.TempDir()
	addModel(b, repo, "standard", manifest+"}")
	if err := os.Mkdir(filepath.Join(repo, "standard", "2"), 0o755); err != nil {
		b.Fatal(err)
	}
	h := synthHouseOf(b, repo)
	mirror := shadow.New(shadow.Config{Models: h})
	settings := server.Config{Shadows: mirror}
	var writer *record.Writer
	if c.record {
		var err error
		if writer, err = record.New(record.Config{Dir: b.TempDir(), Sample: 1, Inputs: record.InputsFull}); err != nil {
			b.Fatal(err)
		}
		settings.Recorder = writer
	}
	s := scene{loads: []load{{model: "standard", course: steady(rate, span), limit: limit, seed: 1}}}
	p := s.play(b, h, func(h *synthHouse) ask { return overGRPC(h.serveAs(b, settings)) })
	err := mirror.Close(context.Background())
	if writer != nil {
		err = errors.Join(err, writer.Close(context.Background()))
		b.Logf("recorded: %+v", writer.Stats())
	}
	if err != nil {
		b.Error(err)
	}
	for pair, found := range mirror.Summaries("standard", shadow.Detail{}) {
		b.Logf("shadow %v: %d offered, %d done, %d dropped, %d failed", pair, found.Offered, found.Done, found.Dropped,
			found.Failed)
		if found.Offered != found.Done+found.Dropped+found.Failed {
			b.Error("the shadow's requests do not add up")
		}
	}
	return p
}
