package shadow_test

import (
	"testing"

	"github.com/weftserve/weft/server/shadow"
)

func BenchmarkOffer(b *testing.B) {
	b.Run("no room", func(b *testing.B) {
		gate := make(chan struct{})
		m := shadow.New(quiet(shadow.Config{Models: held(gate, failing(errModel)), MaxPending: 1}))
		offer := offerOf(3)
		m.Offer(offer)
		b.ReportAllocs()
		for b.Loop() {
			m.Offer(offer)
		}
		close(gate)
		if err := m.Close(b.Context()); err != nil {
			b.Error(err)
		}
	})
	const many = 1000
	// The cost for the goroutine that answered the request, the start of another goroutine included.
	b.Run("room", func(b *testing.B) {
		offer := offerOf(3)
		b.ReportAllocs()
		for b.Loop() {
			gate := make(chan struct{})
			m := shadow.New(quiet(shadow.Config{Models: held(gate, failing(errModel)), MaxPending: many}))
			for range many {
				m.Offer(offer)
			}
			b.StopTimer()
			close(gate)
			if err := m.Close(b.Context()); err != nil {
				b.Error(err)
			}
			b.StartTimer()
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*many), "ns/offer")
	})
	// Everything but the model itself, on all processors.
	b.Run("to the end", func(b *testing.B) {
		offer := offerOf(3)
		models := repeat()
		b.ReportAllocs()
		for b.Loop() {
			m := shadow.New(quiet(shadow.Config{Models: models, MaxPending: many}))
			for range many {
				m.Offer(offer)
			}
			if err := m.Close(b.Context()); err != nil {
				b.Error(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*many), "ns/offer")
	})
}
