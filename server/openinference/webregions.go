package openinference

import (
	"maps"
	"slices"

	"github.com/weftserve/weft/proto/gen/inference"
)

// pages adds a page, whose callers are let in by the rule of a call.
type pages func(pattern, method string, answer func(*visit) (any, error))

// regions are the pages of shared memory.
func (s *Web) regions(page pages) {
	const system, cuda = "/v2/systemsharedmemory", "/v2/cudasharedmemory"
	for _, of := range []string{"", "/region/{region}"} {
		page("GET "+system+of+"/status", "SystemSharedMemoryStatus", func(v *visit) (any, error) {
			all, err := s.SystemSharedMemoryStatus(v.ctx, &inference.SystemSharedMemoryStatusRequest{Name: v.region()})
			list := []any{}
			for _, name := range slices.Sorted(maps.Keys(all.GetRegions())) {
				list = append(list, plain(all.GetRegions()[name].ProtoReflect()))
			}
			return list, err
		})
		page("POST "+system+of+"/unregister", "SystemSharedMemoryUnregister", func(v *visit) (any, error) {
			_, err := s.SystemSharedMemoryUnregister(v.ctx, &inference.SystemSharedMemoryUnregisterRequest{Name: v.region()})
			return nil, err
		})
		page("GET "+cuda+of+"/status", "CudaSharedMemoryStatus", func(*visit) (any, error) { return []any{}, nil })
		page("POST "+cuda+of+"/unregister", "CudaSharedMemoryUnregister", func(*visit) (any, error) { return nil, nil })
	}
	page("POST "+system+"/region/{region}/register", "SystemSharedMemoryRegister", func(v *visit) (any, error) {
		q := &inference.SystemSharedMemoryRegisterRequest{Name: v.region()}
		err := s.read(v, func(in *scanner) error {
			return in.members([]string{"key", "offset", "byte_size"}, func(i int) (err error) {
				switch i {
				case 0:
					q.Key, err = in.string()
				case 1:
					q.Offset, err = in.natural()
				case 2:
					q.ByteSize, err = in.natural()
				}
				return err
			})
		})
		if err != nil {
			return nil, s.fail(v.ctx, err)
		}
		_, err = s.SystemSharedMemoryRegister(v.ctx, q)
		return nil, err
	})
	page("POST "+cuda+"/region/{region}/register", "CudaSharedMemoryRegister", func(v *visit) (any, error) {
		_, err := s.CudaSharedMemoryRegister(v.ctx, &inference.CudaSharedMemoryRegisterRequest{Name: v.region()})
		return nil, err
	})
}

func (v *visit) region() string { return v.r.PathValue("region") }
