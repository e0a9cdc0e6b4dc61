package shadow_test

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/shadow"
)

func BenchmarkOffer(b *testing.B) {
	b.Run("no room", func(b *testing.B) {
		gate := make(chan struct{})
		m := shadow.New(quiet(shadow.Config{Models: held(gate, failing(errModel)), MaxPending: 1}))
		offer := offerOf(b, 3)
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
		offer := offerOf(b, 3)
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
		offer := offerOf(b, 3)
		models := repeat(b)
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

func BenchmarkCompare(b *testing.B) {
	shape := tensor.Shape{64, 12}
	p, s := tensor.Tensor{DType: tensor.Float32, Shape: shape}, tensor.Tensor{DType: tensor.Float32, Shape: shape}
	for i := range 64 * 12 {
		v := float32(math.Sin(float64(i)))
		p.Data = binary.LittleEndian.AppendUint32(p.Data, math.Float32bits(v))
		s.Data = binary.LittleEndian.AppendUint32(s.Data, math.Float32bits(v*1.0001))
	}
	primary, other := []shadow.Output{{Name: "action", Tensor: p}}, []shadow.Output{{Name: "action", Tensor: s}}
	b.SetBytes(int64(len(p.Data) + len(s.Data)))
	b.ReportAllocs()
	for b.Loop() {
		if d := shadow.Compare(primary, other, everywhere(1e-3)); !d[0].Agreed {
			b.Fatal(d)
		}
	}
}
