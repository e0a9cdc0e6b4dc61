package openinference

import (
	"context"

	"google.golang.org/grpc/peer"

	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/server/access"
	"github.com/weftserve/weft/server/status"
)

// SystemSharedMemoryStatus implements inference.GRPCInferenceServiceServer.
func (s *Service) SystemSharedMemoryStatus(
	ctx context.Context, q *inference.SystemSharedMemoryStatusRequest,
) (*inference.SystemSharedMemoryStatusResponse, error) {
	all, err := s.Regions.List(q.GetName())
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	m := &inference.SystemSharedMemoryStatusResponse{
		Regions: map[string]*inference.SystemSharedMemoryStatusResponse_RegionStatus{},
	}
	for _, r := range all {
		m.Regions[r.Name] = &inference.SystemSharedMemoryStatusResponse_RegionStatus{
			Name: r.Name, Key: r.Key, Offset: uint64(r.Offset), ByteSize: uint64(r.Size),
		}
	}
	return m, nil
}

// SystemSharedMemoryRegister implements inference.GRPCInferenceServiceServer. It is answered where callers may operate
// only: a region is there for all callers, and its key names a file of the machine.
func (s *Service) SystemSharedMemoryRegister(
	ctx context.Context, q *inference.SystemSharedMemoryRegisterRequest,
) (*inference.SystemSharedMemoryRegisterResponse, error) {
	switch {
	case s.Regions == nil:
		return nil, s.unsupported(ctx, "shared memory", sharedOff)
	case !s.Operated:
		return nil, s.fail(ctx, &status.ElsewhereError{})
	}
	err := s.Regions.Register(q.GetName(), q.GetKey(), q.GetOffset(), q.GetByteSize())
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	s.Logger.InfoContext(ctx, "shared memory registered", append([]any{
		"event", "region_registered", "region", q.GetName(), "key", q.GetKey(),
		"offset", q.GetOffset(), "bytes", q.GetByteSize(),
	}, who(ctx)...)...)
	return &inference.SystemSharedMemoryRegisterResponse{}, nil
}

// SystemSharedMemoryUnregister implements inference.GRPCInferenceServiceServer. A name that is not registered is no
// error. Where shared memory is off it does nothing.
func (s *Service) SystemSharedMemoryUnregister(
	ctx context.Context, q *inference.SystemSharedMemoryUnregisterRequest,
) (*inference.SystemSharedMemoryUnregisterResponse, error) {
	if s.Regions != nil && !s.Operated {
		return nil, s.fail(ctx, &status.ElsewhereError{})
	}
	if gone := s.Regions.Unregister(q.GetName()); len(gone) > 0 {
		s.Logger.InfoContext(ctx, "shared memory unregistered", append([]any{
			"event", "region_unregistered", "regions", gone,
		}, who(ctx)...)...)
	}
	return &inference.SystemSharedMemoryUnregisterResponse{}, nil
}

// who returns the fields of a line of the log that say who made a change.
func who(ctx context.Context) []any {
	var fields []any
	if p, is := peer.FromContext(ctx); is {
		fields = append(fields, "who", p.Addr.String())
	}
	if by := access.CallerOf(ctx); by != nil {
		fields = append(fields, "identity", by.Name, "proof", by.How)
	}
	return fields
}

// CudaSharedMemoryStatus implements inference.GRPCInferenceServiceServer: there are no regions.
func (*Service) CudaSharedMemoryStatus(
	context.Context, *inference.CudaSharedMemoryStatusRequest,
) (*inference.CudaSharedMemoryStatusResponse, error) {
	return &inference.CudaSharedMemoryStatusResponse{}, nil
}

// CudaSharedMemoryRegister implements inference.GRPCInferenceServiceServer.
func (s *Service) CudaSharedMemoryRegister(
	ctx context.Context, _ *inference.CudaSharedMemoryRegisterRequest,
) (*inference.CudaSharedMemoryRegisterResponse, error) {
	return nil, s.unsupported(ctx, "shared memory of GPUs",
		"register shared memory of the system, or send elements in raw_input_contents")
}

// CudaSharedMemoryUnregister implements inference.GRPCInferenceServiceServer: there are no regions.
func (*Service) CudaSharedMemoryUnregister(
	context.Context, *inference.CudaSharedMemoryUnregisterRequest,
) (*inference.CudaSharedMemoryUnregisterResponse, error) {
	return &inference.CudaSharedMemoryUnregisterResponse{}, nil
}
