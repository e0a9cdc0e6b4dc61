package routing_test

import (
	"sync/atomic"
	"testing"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/routing"
)

func BenchmarkRoute(b *testing.B) {
	names := make([]string, 50_000)
	for i := range names {
		names[i] = episodeName(i)
	}
	shadowed := []catalog.Shadow{{Version: 3, Sample: 0.5}}
	for _, tt := range []struct {
		name     string
		snapshot *catalog.Snapshot
		request  func(i int) routing.Request
	}{
		{
			"newest", serving(1, nil),
			func(i int) routing.Request { return routing.Request{Model: "m", Serial: uint64(i)} },
		},
		{
			"without_episode", serving(1, weights(90, 10)),
			func(i int) routing.Request { return routing.Request{Model: "m", Serial: uint64(i)} },
		},
		{
			"one_episode", serving(1, weights(90, 10)),
			func(int) routing.Request { return routing.Request{Model: "m", Episode: "robot-7/2026-11-21"} },
		},
		{"50000_episodes", serving(1, weights(90, 10)), func(i int) routing.Request {
			return routing.Request{Model: "m", Episode: names[i%len(names)]}
		}},
		{"50000_episodes_shadowed", serving(1, weights(90, 10), shadowed...), func(i int) routing.Request {
			return routing.Request{Model: "m", Episode: names[i%len(names)]}
		}},
	} {
		b.Run(tt.name, func(b *testing.B) {
			r := routing.NewRouter(routing.Config{})
			for i := range names {
				mustRoute(b, r, tt.snapshot, tt.request(i))
			}
			b.ReportAllocs()
			b.ResetTimer()
			var at atomic.Int64
			b.RunParallel(func(pb *testing.PB) {
				i := int(at.Add(12_345))
				for pb.Next() {
					if _, err := r.Route(tt.snapshot, tt.request(i)); err != nil {
						b.Error(err)
					}
					i++
				}
			})
		})
	}
	b.Run("new_episodes", func(b *testing.B) {
		r, s := routing.NewRouter(routing.Config{}), serving(1, weights(90, 10))
		all := make([]string, 400_000)
		for i := range all {
			all[i] = episodeName(i)
		}
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			mustRoute(b, r, s, routing.Request{Episode: all[i%len(all)]})
			i++
		}
	})
}

// BenchmarkBusy asks about a version that none of 100,000 running episodes is on.
func BenchmarkBusy(b *testing.B) {
	r, s := routing.NewRouter(routing.Config{}), serving(1, weights(90, 10))
	for i := range 100_000 {
		mustRoute(b, r, s, routing.Request{Model: "m", Episode: episodeName(i)})
	}
	b.ReportAllocs()
	for b.Loop() {
		if !r.LastUse("m", 7).IsZero() {
			b.Fatal("it is")
		}
	}
}
