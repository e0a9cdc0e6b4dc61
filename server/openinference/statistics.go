package openinference

import (
	"context"
	"strconv"
	"time"

	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/access"
	"github.com/weftserve/weft/server/predict"
)

// ModelStatistics implements inference.GRPCInferenceServiceServer. Without a name it has all models whose state the
// caller may see. With a version it has that one, if it is ready.
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
		all = append(all, statisticsMessage(v, number, s.Statistics.Of(m.Name, v.Number)))
	}
	return all
}

// statisticsMessage converts what was counted of a version. There is no cache of answers, so hits and misses are 0.
//
// InferenceStats and InferenceCount are of requests, by package predict: success and fail is the time from decoding to
// the answer, queue that until the execution began, and the three of compute are those of the executions that requests
// were in. A batch so counts once for each request in it. BatchStats and ExecutionCount are of executions, by the
// runtime (Live), each once.
func statisticsMessage(v *catalog.Version, number string, c predict.Counts) *inference.ModelStatistics {
	n := c.Succeeded.Count
	m := &inference.ModelStatistics{
		Name: v.Model, Version: number, InferenceCount: c.Rows,
		InferenceStats: &inference.InferStatistics{
			Success: duration(n, c.Succeeded.Took), Fail: duration(c.Failed.Count, c.Failed.Took),
			Queue: duration(n, c.Queue), ComputeInput: duration(n, c.Phases.Input),
			ComputeInfer: duration(n, c.Phases.Run), ComputeOutput: duration(n, c.Phases.Output),
			CacheHit: duration(0, 0), CacheMiss: duration(0, 0),
		},
	}
	if !c.Last.IsZero() {
		m.LastInference = uint64(c.Last.UnixMilli())
	}
	// Nothing was executed by a version that is not resident.
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
		if bytes >= 0 && i < len(v.Replicas) { // -1: the engine does not say
			m.MemoryUsage = append(m.MemoryUsage, &inference.MemoryUsage{
				Type: v.Replicas[i].Device, Id: int64(i), ByteSize: uint64(bytes),
			})
		}
	}
	return m
}

// duration is how many times something was done, and how long it took in all.
func duration(count uint64, took time.Duration) *inference.StatisticDuration {
	return &inference.StatisticDuration{Count: count, Ns: uint64(took)}
}
