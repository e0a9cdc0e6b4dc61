package openinference

import (
	"math"
	"strconv"

	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/runtime/tensor"
)

// settings are the pages of the log and of traces. What is read is the answer to what is set, too.
func (s *Web) settings(page pages) {
	for _, method := range []string{"GET ", "POST "} {
		page(method+"/v2/logging", "LogSettings", func(v *visit) (any, error) {
			q := &inference.LogSettingsRequest{}
			if method == "POST " {
				var asked []parameter
				err := s.read(v, func(in *scanner) (err error) {
					asked, err = in.parameters(func() error { return nil })
					return err
				})
				if err == nil {
					q.Settings, err = logSettingsOf(asked)
				}
				if err != nil {
					return nil, s.fail(v.ctx, err)
				}
			}
			all, err := s.LogSettings(v.ctx, q)
			out := map[string]any{}
			for key, value := range all.GetSettings() {
				for _, one := range plain(value.ProtoReflect()) {
					out[key] = one
				}
			}
			return out, err
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

func logSettingsOf(asked []parameter) (map[string]*inference.LogSettingsRequest_SettingValue, error) {
	out := map[string]*inference.LogSettingsRequest_SettingValue{}
	for i := range asked {
		p, to := &asked[i], &inference.LogSettingsRequest_SettingValue{}
		switch {
		case p.kind == isBool:
			to.ParameterChoice = &inference.LogSettingsRequest_SettingValue_BoolParam{BoolParam: p.number != 0}
		case p.kind == isText:
			to.ParameterChoice = &inference.LogSettingsRequest_SettingValue_StringParam{StringParam: p.text}
		case p.natural() && p.number <= math.MaxUint32:
			to.ParameterChoice = &inference.LogSettingsRequest_SettingValue_Uint32Param{Uint32Param: uint32(p.number)}
		default:
			return nil, &tensor.FieldError{
				Field: "settings" + parameterKey(p.key), Want: "a number from 0 to " + strconv.Itoa(math.MaxUint32),
				Got: p.String(),
			}
		}
		out[p.key] = to
	}
	return out, nil
}
