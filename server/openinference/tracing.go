package openinference

import (
	"context"

	"github.com/weftserve/weft/proto/gen/inference"
)

// TraceSetting implements inference.GRPCInferenceServiceServer: Triton's traces are off.
func (s *Service) TraceSetting(
	ctx context.Context, q *inference.TraceSettingRequest,
) (*inference.TraceSettingResponse, error) {
	if len(q.GetSettings()) > 0 {
		return nil, s.unsupported(ctx, "a trace of requests in a file",
			"read the metrics, the execution in each answer of weft.v1, and its GetSchedulerState, record requests with "+
				"--record, or have spans exported by OTEL_EXPORTER_OTLP_ENDPOINT, which go on the traces of callers")
	}
	if name := q.GetModelName(); name != "" {
		if _, err := s.Pipeline.Table().Model(name); err != nil {
			return nil, s.fail(ctx, err)
		}
	}
	m := &inference.TraceSettingResponse{Settings: map[string]*inference.TraceSettingResponse_SettingValue{}}
	for key, value := range map[string]string{
		"trace_level": "OFF", "trace_file": "", "trace_rate": "0", "trace_count": "0", "log_frequency": "0",
	} {
		m.Settings[key] = &inference.TraceSettingResponse_SettingValue{Value: []string{value}}
	}
	return m, nil
}
