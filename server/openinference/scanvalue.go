package openinference

import (
	"fmt"
	"strconv"

	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/routing"
	"github.com/weftserve/weft/server/web"
)

// natural reads a whole number that is not negative.
func natural(s *web.Scanner) (uint64, error) {
	p, err := parameterOf(s)
	if err != nil {
		return 0, err
	}
	n, ok := valueOf(p).natural()
	if !ok {
		err = &tensor.FieldError{Want: "a whole number that is not negative", Got: valueOf(p).String()}
	}
	return n, err
}

// mostParameters bounds a map of parameters: each takes memory.
const mostParameters = 64

// parametersOf reads a map of parameters. part counts one of them among those of the whole body, and may refuse it.
func parametersOf(s *web.Scanner, part func() error) (map[string]*inference.InferParameter, error) {
	all := map[string]*inference.InferParameter{}
	return all, s.Object(func(key []byte) error {
		if err := part(); err != nil {
			return err
		}
		name := string(key)
		switch {
		case all[name] != nil:
			return &tensor.FieldError{Field: parameterKey(name), Want: "each parameter once", Got: "it again"}
		case len(all) == mostParameters:
			return &tensor.FieldError{Want: fmt.Sprintf("at most %d parameters", mostParameters), Got: "more"}
		}
		p, err := parameterOf(s)
		all[name] = p
		return web.InPart(parameterKey(name), err)
	})
}

// parameterOf reads the value of a parameter. A whole number is an int64 if it can be one, else a uint64; any other
// number is a float64.
func parameterOf(s *web.Scanner) (*inference.InferParameter, error) {
	switch s.Kind() {
	case '"':
		text, err := s.String()
		return &inference.InferParameter{ParameterChoice: &inference.InferParameter_StringParam{StringParam: text}}, err
	case 't', 'f':
		is, err := s.Bool()
		return &inference.InferParameter{ParameterChoice: &inference.InferParameter_BoolParam{BoolParam: is}}, err
	case web.ANumber:
	default:
		return nil, s.Unlike("a bool, a number or a text")
	}
	digits, err := s.Scalar()
	if err != nil {
		return nil, err
	}
	p := &inference.InferParameter{}
	if n, err := strconv.ParseInt(string(digits), 10, 64); err == nil {
		p.ParameterChoice = &inference.InferParameter_Int64Param{Int64Param: n}
	} else if n, err := strconv.ParseUint(string(digits), 10, 64); err == nil {
		p.ParameterChoice = &inference.InferParameter_Uint64Param{Uint64Param: n}
	} else if x, err := strconv.ParseFloat(string(digits), 64); err == nil {
		p.ParameterChoice = &inference.InferParameter_DoubleParam{DoubleParam: x}
	} else {
		return nil, &tensor.FieldError{Want: "a number of 64 bits", Got: routing.Quote(string(digits))}
	}
	return p, nil
}
