package record

import (
	"testing"
	"time"
)

// BenchmarkRecord is what recording costs the one who answers: 64 KiB of input each. Beyond what the disk takes, entries are
// dropped, which costs about as much.
func BenchmarkRecord(b *testing.B) {
	w, err := New(Config{Dir: b.TempDir(), Sample: 0.999999})
	if err != nil {
		b.Fatal(err)
	}
	e := answered(time.Now(), "game", 1)
	e.Request.Inputs["z"].Raw = make([]byte, 64<<10)
	b.ReportAllocs()
	for b.Loop() {
		w.Record(e)
	}
	b.StopTimer()
	if err := w.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
	s := w.Stats()
	b.ReportMetric(float64(s.Written)/float64(s.Written+s.Dropped), "written/op")
}

// BenchmarkWrite is what an entry costs the goroutine that writes.
func BenchmarkWrite(b *testing.B) {
	w := &Writer{config: Config{Inputs: InputsFull}}
	e := answered(time.Now(), "game", 1)
	e.Request.Inputs["z"].Raw = make([]byte, 64<<10)
	b.ReportAllocs()
	for b.Loop() {
		data, err := w.encode(w.buffer[:0], e, 0)
		if err != nil {
			b.Fatal(err)
		}
		w.buffer = data
	}
	b.SetBytes(int64(len(w.buffer)))
}
