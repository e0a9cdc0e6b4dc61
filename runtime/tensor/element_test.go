package tensor_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/runtime/tensor"
)

func TestParseElement(t *testing.T) {
	for _, test := range []struct {
		dtype tensor.DType
		text  string
		want  string // the bytes
		wrong string // or the error's text
	}{
		{tensor.Int64, "", "\x00\x00\x00\x00\x00\x00\x00\x00", ""},
		{tensor.Int64, "-2", "\xfe\xff\xff\xff\xff\xff\xff\xff", ""},
		{tensor.Int8, "-128", "\x80", ""},
		{tensor.Int8, "128", "", `expected a whole number that int8 holds, found "128"`},
		{tensor.Int32, "1.0", "", `expected a whole number that int32 holds, found "1.0"`},
		{tensor.Uint16, "258", "\x02\x01", ""},
		{tensor.Uint16, "-1", "", `expected a whole number from 0 on that uint16 holds, found "-1"`},
		{tensor.Bool, "true", "\x01", ""},
		{tensor.Bool, "0", "\x00", ""},
		{tensor.Bool, "2", "", `expected true or false, found "2"`},
		{tensor.Float32, "-1", "\x00\x00\x80\xbf", ""},
		{tensor.Float32, "-.inf", "\x00\x00\x80\xff", ""},
		{tensor.Float32, "1e39", "", "1e39 is beyond the range of fp32"},
		{tensor.Float16, "1", "\x00\x3c", ""},
		{tensor.Float16, ".nan", "\x00\x7e", ""},
		{tensor.Float16, "-1e9", "", "-1e9 is beyond the range of fp16"},
		{tensor.BFloat16, "1", "\x80\x3f", ""},
		{tensor.Float32, "much", "", `expected a number, found "much"`},
		{tensor.String, "[PAD]", "\x05\x00\x00\x00[PAD]", ""},
		{tensor.String, "", "\x00\x00\x00\x00", ""},
		{tensor.Invalid, "1", "", "has no values"},
	} {
		got, err := tensor.ParseElement(test.dtype, test.text)
		if test.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), test.wrong) {
				t.Errorf("%v %q: %v, want ...%s...", test.dtype, test.text, err, test.wrong)
			}
			continue
		}
		if err != nil {
			t.Errorf("%v %q: %v", test.dtype, test.text, err)
		}
		if diff := cmp.Diff(test.want, string(got)); diff != "" {
			t.Errorf("%v %q (-want +got):\n%s", test.dtype, test.text, diff)
		}
	}
}
