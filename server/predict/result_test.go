package predict

import (
	"strings"
	"testing"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
)

// TestBrokenResultsAreRefused: results that no message could carry.
func TestBrokenResultsAreRefused(t *testing.T) {
	whole := tensor.Tensor{DType: tensor.Float32, Shape: tensor.Shape{2}, Data: make([]byte, 8)}
	short := whole
	short.Data = whole.Data[:7]
	for name, c := range map[string]struct {
		outputs []string
		wanted  []int
		results []tensor.Tensor
		err     string // "": none
	}{
		"all":                     {[]string{"y", "z"}, nil, []tensor.Tensor{whole, whole}, ""},
		"the wanted one":          {[]string{"y", "z"}, []int{1}, []tensor.Tensor{whole}, ""},
		"one that is short":       {[]string{"y", "z"}, []int{1}, []tensor.Tensor{short}, `output "z": `},
		"one that is missing":     {[]string{"y"}, nil, nil, "the model gave 0 outputs, 1 were asked for"},
		"a wanted one is missing": {[]string{"y", "z"}, []int{0}, nil, "the model gave 0 outputs, 1 were asked for"},
		"a name that is not text": {[]string{"\xff"}, nil, []tensor.Tensor{whole}, "its name is not UTF-8"},
	} {
		sig := &tensor.Signature{}
		for _, output := range c.outputs {
			sig.Outputs = append(sig.Outputs, tensor.Spec{Name: output, DType: tensor.Float32})
		}
		call := &catalog.Call{Version: &catalog.Version{Signature: sig}, Wanted: c.wanted, Results: c.results}
		err := checkResults(call)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: the error is %v", name, err)
		}
		if isFault(err) != (c.err != "") {
			t.Errorf("%s: the model's fault: %v", name, isFault(err))
		}
	}
}
