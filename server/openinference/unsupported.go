package openinference

import (
	"context"

	"github.com/weftserve/weft/proto/gen/inference"
)

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
