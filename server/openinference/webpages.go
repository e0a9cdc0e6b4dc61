package openinference

import (
	"maps"
	"slices"

	"github.com/weftserve/weft/proto/gen/inference"
)

// pages adds a page: a pattern of paths, the call of gRPC by whose rule callers are let in, and what answers.
type pages func(pattern, method string, answer func(*visit) (any, error))

// regions adds the pages of shared memory. There is none of GPUs, so their lists are empty.
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

// settings adds the pages of the log and of traces. What is set is answered like what is read.
func (s *Web) settings(page pages) {
	for _, method := range []string{"GET ", "POST "} {
		page(method+"/v2/logging", "LogSettings", func(v *visit) (any, error) {
			asked := map[string]value{}
			if method == "POST " {
				err := s.read(v, func(in *scanner) error {
					all, err := in.parameters(func() error { return nil })
					for key, p := range all {
						asked[key] = valueOf(p)
					}
					return err
				})
				if err != nil {
					return nil, s.fail(v.ctx, err)
				}
			}
			return s.logSettings(v.ctx, asked)
		})
		for _, of := range []string{"/v2", "/v2/models/{model}"} {
			page(method+of+"/trace/setting", "TraceSetting", func(v *visit) (any, error) {
				q := &inference.TraceSettingRequest{ModelName: v.model()}
				if method == "POST " {
					err := s.read(v, func(in *scanner) error {
						return in.firstName(func(key string) { // which says what is not supported
							q.Settings = map[string]*inference.TraceSettingRequest_SettingValue{key: {}}
						})
					})
					if err != nil {
						return nil, s.fail(v.ctx, err)
					}
				}
				all, err := s.TraceSetting(v.ctx, q)
				out := map[string]any{}
				for key, value := range all.GetSettings() {
					// Triton has a list of levels, and of the other settings their values alone.
					if out[key] = value.GetValue()[0]; key == "trace_level" {
						out[key] = value.GetValue()
					}
				}
				return out, err
			})
		}
	}
}
