package openinference

import (
	"context"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/access"
	"github.com/weftserve/weft/server/predict"
)

// Statistics counts the requests of all protocols by the version that they came to. It implements predict.Observer, and
// may be followed by another one. The zero value is ready.
type Statistics struct {
	Next predict.Observer // may be nil

	mu       sync.Mutex
	versions map[versionKey]*requestCounts // guarded by mu
}

type versionKey struct {
	model  string
	number int64
}

// requestCounts are of one version.
type requestCounts struct {
	mu                sync.Mutex
	succeeded, failed sum
	queue             time.Duration  // of those that succeeded, like all below
	phases            catalog.Phases // of their executions
	rows              uint64
	last              time.Time
}

// sum is a number of requests and how long they took.
type sum struct {
	count uint64
	took  time.Duration
}

func (s *sum) add(d time.Duration) { s.count, s.took = s.count+1, s.took+d }

// RequestOffered implements predict.Observer.
func (s *Statistics) RequestOffered(model string, stream bool) {
	if s.Next != nil {
		s.Next.RequestOffered(model, stream)
	}
}

// RequestDone implements predict.Observer.
func (s *Statistics) RequestDone(ctx context.Context, e *predict.Event) {
	if e.Version != 0 {
		s.of(versionKey{e.Model, e.Version}).add(e)
	}
	if s.Next != nil {
		s.Next.RequestDone(ctx, e)
	}
}

// of returns the counts of a version.
func (s *Statistics) of(k versionKey) *requestCounts {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.versions[k]
	if c == nil {
		if s.versions == nil {
			s.versions = map[versionKey]*requestCounts{}
		}
		c = &requestCounts{}
		s.versions[k] = c
	}
	return c
}

func (c *requestCounts) add(e *predict.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.Code != "OK" {
		c.failed.add(e.Duration)
		return
	}
	c.succeeded.add(e.Duration)
	x := &e.Execution
	c.queue += x.Outcome.Queue
	c.phases = c.phases.Plus(x.Phases)
	c.rows += uint64(max(1, x.Rows))
	c.last = time.Now()
}

// Keep forgets the versions that are not in a snapshot.
func (s *Statistics) Keep(now *catalog.Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.versions, func(k versionKey, _ *requestCounts) bool {
		m := now.Model(k.model)
		return m == nil || m.Version(k.number) == nil
	})
}

// ModelStatistics implements inference.GRPCInferenceServiceServer.
func (s *Service) ModelStatistics(
	ctx context.Context, q *inference.ModelStatisticsRequest,
) (*inference.ModelStatisticsResponse, error) {
	by, all := access.CallerOf(ctx), &inference.ModelStatisticsResponse{}
	if q.GetName() != "" {
		m, err := s.Pipeline.Table().Model(q.GetName())
		if err == nil && q.GetVersion() != "" {
			_, err = s.version(q.GetName(), q.GetVersion())
		}
		if err != nil {
			return nil, s.fail(ctx, err)
		}
		all.ModelStats = s.statisticsOf(m, q.GetVersion())
		return all, nil
	}
	for name, m := range s.Pipeline.Snapshot().Models.All() {
		if by.Observes(name) {
			all.ModelStats = append(all.ModelStats, s.statisticsOf(m, "")...)
		}
	}
	return all, nil
}

// statisticsOf returns those of the ready versions of a model, or of one of them.
func (s *Service) statisticsOf(m *catalog.Model, version string) []*inference.ModelStatistics {
	var all []*inference.ModelStatistics
	for _, v := range m.Versions {
		number := strconv.FormatInt(v.Number, 10)
		if v.State != catalog.Ready || version != "" && version != number {
			continue
		}
		all = append(all, s.Statistics.of(versionKey{m.Name, v.Number}).message(v, number))
	}
	return all
}

func (c *requestCounts) message(v *catalog.Version, number string) *inference.ModelStatistics {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.succeeded.count
	m := &inference.ModelStatistics{
		Name: v.Model, Version: number, InferenceCount: c.rows,
		InferenceStats: &inference.InferStatistics{
			Success: duration(n, c.succeeded.took), Fail: duration(c.failed.count, c.failed.took),
			Queue: duration(n, c.queue), ComputeInput: duration(n, c.phases.Input),
			ComputeInfer: duration(n, c.phases.Run), ComputeOutput: duration(n, c.phases.Output),
			CacheHit: duration(0, 0), CacheMiss: duration(0, 0),
		},
	}
	if !c.last.IsZero() {
		m.LastInference = uint64(c.last.UnixMilli())
	}
	if v.Live == nil {
		return m
	}
	live := v.Live()
	for _, b := range live.Batches {
		m.ExecutionCount += b.Executions
		m.BatchStats = append(m.BatchStats, &inference.InferBatchStatistics{
			BatchSize: uint64(b.Rows), ComputeInput: duration(b.Executions, b.Phases.Input),
			ComputeInfer: duration(b.Executions, b.Phases.Run), ComputeOutput: duration(b.Executions, b.Phases.Output),
		})
	}
	for i, bytes := range live.Memory {
		if bytes >= 0 && i < len(v.Replicas) {
			m.MemoryUsage = append(m.MemoryUsage, &inference.MemoryUsage{
				Type: v.Replicas[i].Device, Id: int64(i), ByteSize: uint64(bytes),
			})
		}
	}
	return m
}

func duration(count uint64, took time.Duration) *inference.StatisticDuration {
	return &inference.StatisticDuration{Count: count, Ns: uint64(took)}
}
