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

func TestDTypeNames(t *testing.T) {
	sizes := map[tensor.DType]int{
		tensor.Bool: 1, tensor.Int8: 1, tensor.Uint8: 1, tensor.Int16: 2, tensor.Uint16: 2, tensor.Float16: 2,
		tensor.BFloat16: 2,
		tensor.Int32:    4, tensor.Uint32: 4, tensor.Float32: 4, tensor.Int64: 8, tensor.Uint64: 8, tensor.Float64: 8,
		tensor.String: 0,
	}
	seen := map[string]bool{}
	for d := tensor.Bool; d <= tensor.String; d++ {
		if got, ok := tensor.ParseDType(d.String()); got != d || !ok || seen[d.String()] {
			t.Errorf("%v: parsed as %v, %t", d, got, ok)
		}
		seen[d.String()] = true
		if want, ok := sizes[d]; !ok || d.Size() != want {
			t.Errorf("%v: size %d, want %d", d, d.Size(), want)
		}
		wantFloat := d == tensor.Float16 || d == tensor.BFloat16 || d == tensor.Float32 || d == tensor.Float64
		if d.IsFloat() != wantFloat {
			t.Errorf("%v: IsFloat %t", d, d.IsFloat())
		}
	}
	for _, name := range []string{"", "invalid", "float32", "FP32"} {
		if d, ok := tensor.ParseDType(name); ok || d != tensor.Invalid {
			t.Errorf("%q: parsed as %v", name, d)
		}
	}
	if d := tensor.DType(99); d.Size() != 0 || d.String() != "dtype(99)" || d.IsFloat() {
		t.Errorf("an unknown type: got %v of size %d", d, d.Size())
	}
}
