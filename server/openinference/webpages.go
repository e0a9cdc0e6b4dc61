package openinference

import (
	"maps"
	"slices"

	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/server/web"
)

// pages adds a page: a pattern of paths, the call of gRPC by whose rule callers are let in, and what answers.
type pages func(pattern, method string, answer func(*web.Visit) (any, error))

// regions adds the pages of shared memory. There is none of GPUs, so their lists are empty.
func (s *Web) regions(page pages) {
	const system, cuda = "/v2/systemsharedmemory", "/v2/cudasharedmemory"
	for _, of := range []string{"", "/region/{region}"} {
		page("GET "+system+of+"/status", "SystemSharedMemoryStatus", func(v *web.Visit) (any, error) {
			all, err := s.SystemSharedMemoryStatus(v.Ctx, &inference.SystemSharedMemoryStatusRequest{Name: regionOf(v)})
			list := []any{}
			for _, name := range slices.Sorted(maps.Keys(all.GetRegions())) {
				list = append(list, plain(all.GetRegions()[name].ProtoReflect()))
			}
			return list, err
		})
		page("POST "+system+of+"/unregister", "SystemSharedMemoryUnregister", func(v *web.Visit) (any, error) {
			_, err := s.SystemSharedMemoryUnregister(v.Ctx, &inference.SystemSharedMemoryUnregisterRequest{Name: regionOf(v)})
			return nil, err
		})
		page("GET "+cuda+of+"/status", "CudaSharedMemoryStatus", func(*web.Visit) (any, error) { return []any{}, nil })
		page("POST "+cuda+of+"/unregister", "CudaSharedMemoryUnregister", func(*web.Visit) (any, error) { return nil, nil })
	}
	page("POST "+system+"/region/{region}/register", "SystemSharedMemoryRegister", func(v *web.Visit) (any, error) {
		q := &inference.SystemSharedMemoryRegisterRequest{Name: regionOf(v)}
		err := v.Read(func(in *web.Scanner) error {
			return in.Members([]string{"key", "offset", "byte_size"}, func(i int) (err error) {
				switch i {
				case 0:
					q.Key, err = in.String()
				case 1:
					q.Offset, err = natural(in)
				case 2:
					q.ByteSize, err = natural(in)
				}
				return err
			})
		})
		if err != nil {
			return nil, s.fail(v.Ctx, err)
		}
		_, err = s.SystemSharedMemoryRegister(v.Ctx, q)
		return nil, err
	})
	page("POST "+cuda+"/region/{region}/register", "CudaSharedMemoryRegister", func(v *web.Visit) (any, error) {
		_, err := s.CudaSharedMemoryRegister(v.Ctx, &inference.CudaSharedMemoryRegisterRequest{Name: regionOf(v)})
		return nil, err
	})
}

func regionOf(v *web.Visit) string { return v.R.PathValue("region") }

// settings adds the pages of the log and of traces. What is set is answered like what is read.
func (s *Web) settings(page pages) {
	for _, method := range []string{"GET ", "POST "} {
		page(method+"/v2/logging", "LogSettings", func(v *web.Visit) (any, error) {
			asked := map[string]value{}
			if method == "POST " {
				err := v.Read(func(in *web.Scanner) error {
					all, err := parametersOf(in, func() error { return nil })
					for key, p := range all {
						asked[key] = valueOf(p)
					}
					return err
				})
				if err != nil {
					return nil, s.fail(v.Ctx, err)
				}
			}
			return s.logSettings(v.Ctx, asked)
		})
		for _, of := range []string{"/v2", "/v2/models/{model}"} {
			page(method+of+"/trace/setting", "TraceSetting", func(v *web.Visit) (any, error) {
				q := &inference.TraceSettingRequest{ModelName: v.Model()}
				if method == "POST " {
					err := v.Read(func(in *web.Scanner) error {
						return in.FirstName(func(key string) { // which says what is not supported
							q.Settings = map[string]*inference.TraceSettingRequest_SettingValue{key: {}}
						})
					})
					if err != nil {
						return nil, s.fail(v.Ctx, err)
					}
				}
				all, err := s.TraceSetting(v.Ctx, q)
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
