package openinference

import "github.com/weftserve/weft/proto/gen/inference"

// settings are the pages of the log and of traces. What is read is the answer to what is set, too.
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
					if out[key] = value.GetValue()[0]; key == "trace_level" {
						out[key] = value.GetValue()
					}
				}
				return out, err
			})
		}
	}
}
