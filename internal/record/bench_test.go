package record

import (
	"fmt"
	"testing"
	"time"
)

// asked is an entry with so many bytes of input, as a policy of that many observations has them.
func asked(bytes int) Entry {
	e := answered(time.Now(), "game", 1)
	e.Request.Inputs["z"].Raw = make([]byte, bytes)
	return e
}

var benchSizes = []int{256, 64 << 10} // bytes of input

// BenchmarkRecord measures the cost of recording for the goroutine that answers, as long as the queue has room, and
// when it is full. The setting Inputs makes no difference here: see BenchmarkWrite.
func BenchmarkRecord(b *testing.B) {
	for _, bytes := range benchSizes {
		for _, inputs := range []Inputs{InputsFull, InputsHash, InputsNone} {
			b.Run(fmt.Sprintf("room/bytes=%d/inputs=%s", bytes, inputs),
				func(b *testing.B) { benchRoom(b, Config{Inputs: inputs}, asked(bytes)) })
		}
	}
	b.Run("room/bytes=256/sample=0.999", func(b *testing.B) { benchRoom(b, Config{Sample: 0.999}, asked(256)) })
	b.Run("sampled out/bytes=256", func(b *testing.B) {
		w := nobodyWrites(b, Config{Sample: 1e-9})
		e := asked(256)
		b.ReportAllocs()
		for b.Loop() {
			w.Record(e)
		}
	})
	for _, bytes := range benchSizes {
		b.Run(fmt.Sprintf("full/bytes=%d", bytes), func(b *testing.B) {
			w := nobodyWrites(b, Config{MaxPending: 1})
			e := asked(bytes)
			w.Record(e)
			b.ReportAllocs()
			for b.Loop() {
				w.Record(e)
			}
			if s := w.Stats(); s.Pending != 1 {
				b.Fatalf("%+v, want one pending", s)
			}
		})
	}
}

// benchRoom records into a queue that is emptied, off the clock, before it is full.
func benchRoom(b *testing.B, c Config, e Entry) {
	const emptied = 4096
	c.MaxPending, c.MaxPendingBytes = 2*emptied, 1<<40
	w := nobodyWrites(b, c)
	var items []item
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		w.Record(e)
		if n++; n%emptied == 0 {
			b.StopTimer()
			items, _ = w.queue.take(items[:0])
			w.queue.settle(items, len(items), 0)
			b.StartTimer()
		}
	}
	if s := w.Stats(); s.Dropped != 0 {
		b.Fatalf("%+v, want none dropped", s)
	}
}

// nobodyWrites is a Writer without its goroutine.
func nobodyWrites(b *testing.B, c Config) *Writer {
	b.Helper()
	c.Dir = b.TempDir()
	if err := c.complete(); err != nil {
		b.Fatal(err)
	}
	w := &Writer{config: c, sampler: sampler{part: c.Sample}, queue: newQueue(&c)}
	w.out = newOutput(&w.config, createFile)
	return w
}

// BenchmarkFlood calls Record as fast as it goes while the other goroutine writes: entries that the disk does not take
// are dropped.
func BenchmarkFlood(b *testing.B) {
	for _, bytes := range benchSizes {
		b.Run(fmt.Sprintf("bytes=%d", bytes), func(b *testing.B) {
			w, err := New(Config{Dir: b.TempDir(), MaxBytes: 1 << 30})
			if err != nil {
				b.Fatal(err)
			}
			e := asked(bytes)
			b.ReportAllocs()
			for b.Loop() {
				w.Record(e)
			}
			b.StopTimer()
			took := b.Elapsed().Seconds()
			written := w.Stats().Written
			if err := w.Close(b.Context()); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(written)/took, "written/s")
		})
	}
}

// BenchmarkWrite measures the cost of an entry for the goroutine that writes, without the disk; file-B is its size
// there.
func BenchmarkWrite(b *testing.B) {
	for _, bytes := range benchSizes {
		for _, inputs := range []Inputs{InputsFull, InputsHash, InputsNone} {
			b.Run(fmt.Sprintf("bytes=%d/inputs=%s", bytes, inputs), func(b *testing.B) {
				w := &Writer{config: Config{Inputs: inputs}}
				e := asked(bytes)
				b.ReportAllocs()
				for b.Loop() {
					data, err := w.encode(w.buffer[:0], e, 0)
					if err != nil {
						b.Fatal(err)
					}
					w.buffer = data
				}
				b.ReportMetric(float64(len(w.buffer)), "file-B")
			})
		}
	}
}
