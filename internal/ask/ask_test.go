package ask

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/sharedsched"
)

// echo gives back the inputs of a call: its models have an output X for an input x.
func echo(_ context.Context, call *catalog.Call) error {
	for i, t := range call.Inputs {
		if call.Wanted == nil || call.Wanted[0] == i {
			call.Results = append(call.Results, t.Clone())
		}
	}
	call.Outcome = sharedsched.Outcome{Device: "cpu", BatchRows: 2, BatchRequests: 1}
	return nil
}

// serve returns the address of a server. Each element type has a model, such as fp32, whose input has two dimensions, and
// pair takes two inputs.
func serve(t *testing.T) string {
	t.Helper()
	spec := func(name string, d tensor.DType, shape ...int64) tensor.Spec {
		return tensor.Spec{Name: name, DType: d, Shape: shape, BatchDim: tensor.NoBatch, DimNames: []string{"rows", ""}}
	}
	var models []*catalog.Model
	add := func(name string, version int64, specs ...tensor.Spec) {
		s := &tensor.Signature{Inputs: specs}
		for _, of := range specs {
			of.Name = strings.ToUpper(of.Name)
			s.Outputs = append(s.Outputs, of)
		}
		models = append(models, &catalog.Model{
			Name: name, Labels: map[string]int64{"stable": version}, Versions: []*catalog.Version{
				{Model: name, Number: version, State: catalog.Ready, Signature: s},
			},
		})
	}
	for d := tensor.Bool; d <= tensor.String; d++ {
		add(d.String(), 1, spec("x", d, tensor.Unknown, 2))
	}
	scalar := tensor.Spec{Name: "b", DType: tensor.String, BatchDim: tensor.NoBatch}
	add("pair", 7, spec("a", tensor.Int8, tensor.Unknown, 2), scalar)
	add("open", 1, spec("x", tensor.Float32, tensor.Unknown, tensor.Unknown))
	add("large", 1, spec("x", tensor.Float32, 1, 1000))

	h := servertest.New(t, server.Config{})
	h.Run = echo
	h.Current.Store(servertest.SnapshotOf(1, models...))
	return weftest.Serve(t, h.GRPC)
}

// ask runs the command, and returns what it prints.
func ask(t *testing.T, o *Options, in string) (string, error) {
	t.Helper()
	o.Timeout = config.Duration(10e9)
	var out strings.Builder
	err := Run(t.Context(), o, strings.NewReader(in), &out)
	return out.String(), err
}

func TestValuesComeBack(t *testing.T) {
	address := serve(t)
	for model, value := range map[string]string{
		"bool":   `[[true,false]]`,
		"int8":   `[[-128,127]]`,
		"int16":  `[[-32768,32767]]`,
		"int32":  `[[-2147483648,2147483647]]`,
		"int64":  `[[-9223372036854775808,9223372036854775807]]`,
		"uint8":  `[[0,255],[1,2]]`,
		"uint16": `[[0,65535]]`,
		"uint32": `[[0,4294967295]]`,
		"uint64": `[[0,18446744073709551615]]`,
		"fp16":   `[[0.5,"-Infinity"]]`,
		"bf16":   `[[0.5,-2]]`,
		"fp32":   `[[0.1,"NaN"],["Infinity",16777216]]`,
		"fp64":   `[[0.1,1e+300]]`,
		"string": `[["ä=\"b\"",""]]`,
		"open":   `[[1,2,3],[4,5,6]]`,
	} {
		text, err := ask(t, &Options{Model: model, Address: address, JSON: true, Input: []string{value}}, "")
		if err != nil {
			t.Errorf("%s: %v", model, err)
			continue
		}
		var answer struct {
			Version int64
			Outputs map[string]struct {
				Dtype  string
				Shape  []int64
				Values json.RawMessage
			}
		}
		if err := json.Unmarshal([]byte(text), &answer); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(value, string(answer.Outputs["X"].Values)); diff != "" || answer.Version != 1 {
			t.Errorf("%s (-sent +got):\n%s\n%s", model, diff, text)
		}
		if model != "open" && answer.Outputs["X"].Dtype != model {
			t.Errorf("%s: %s", model, text)
		}
	}
}

func TestText(t *testing.T) {
	address := serve(t)
	file := filepath.Join(t.TempDir(), "a.json")
	if err := os.WriteFile(file, []byte("[[1, 2],\n [3, 4]]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	both := []string{"a=@" + file, "b=@-"}
	for _, tt := range []struct {
		o    Options
		in   string
		want string
	}{
		{
			Options{Model: "pair", Input: both},
			`"text"`,
			"A  int8 [2 2]\n  [1,2]\n  [3,4]\nB  string []\n  \"text\"\n\n" +
				"pair version 7 (prod) on cpu: 0s in the queue, 0s computing, in a batch of 2 rows of 1 request",
		},
		{Options{Model: "pair", Input: both, Output: []string{"B"}, Label: new("stable")}, `""`, "B  string []\n  \"\"\n\npair version 7 on cpu"},
		{Options{Model: "pair", Input: []string{`b="<b>"`, "a=[]"}}, ``, `  "<b>"`},
		{Options{Model: "pair", Input: []string{`b="a=b"`, "a=[]"}, Version: new(int64(7))}, ``, "A  int8 [0 2]\nB  string []\n  \"a=b\"\n"},
		{Options{Model: "open", Input: []string{`[` + strings.Repeat("[1],", 29) + `[1]]`}}, ``, "X  fp32 [30 1]\n  [1]\n"},
		{Options{Model: "open", Input: []string{`[` + strings.Repeat("[1],", 29) + `[1]]`}}, ``, "  [1]\n  and 10 rows more; --json prints all\n"},
	} {
		tt.o.Address = address
		if text, err := ask(t, &tt.o, tt.in); err != nil || !strings.Contains(text, tt.want) {
			t.Errorf("%v:\n%s%v\nwant ...%s...", tt.o.Input, text, err, tt.want)
		}
	}
}

func TestWrongInputs(t *testing.T) {
	address := serve(t)
	for _, tt := range []struct {
		model  string
		inputs []string
		want   string
	}{
		{"fp32", nil, "--input: model fp32 version 1 takes:\n  x  fp32 [rows, 2], such as --input x='[[0, 0]]'"},
		{"string", nil, `such as --input x='[["text", "text"]]'`},
		{"bool", nil, `such as --input x='[[false, false]]'`},
		{"large", nil, "x  fp32 [1, 1000], such as --input x=@FILE"},
		{"open", nil, "x  fp32 [rows, any], such as --input x='[[0]]'"},
		{"pair", []string{"a=[[1,2]]"}, "model pair version 7 also takes:\n  b  string [], such as --input b='\"text\"'"},
		{"fp32", []string{"[[1,2],[3]]"}, "--input x: 1 values in row 2, expected 2"},
		{"open", []string{"[[1,2,3],[3,1]]"}, "--input x: 2 values in row 2, expected 3"},
		{"fp32", []string{"[1,2]"}, "1 in row 1; expected a list: the dimensions are [rows, 2], as in '[[0, 0]]'"},
		{"fp32", []string{"3"}, "3 as the value; expected a list"},
		{"fp32", []string{"[[1,[2]]]"}, "a list in row 1, place 2; expected a number of fp32"},
		{"fp32", []string{`[[1,"a"]]`}, `"a" in row 1, place 2; expected a number of fp32`},
		{"fp32", []string{`[[1,1e99]]`}, `1e99 in row 1, place 2; expected a number of fp32`},
		{"fp32", []string{`[[1,true]]`}, `true in row 1, place 2; expected a number of fp32`},
		{"fp16", []string{`[[1,65520]]`}, `65520 in row 1, place 2; expected a number of fp16`},
		{"int8", []string{`[[1,128]]`}, `128 in row 1, place 2; expected a number of int8`},
		{"int8", []string{`[[1,"NaN"]]`}, `"NaN" in row 1, place 2; expected a number of int8`},
		{"uint8", []string{`[[1,-1]]`}, `-1 in row 1, place 2; expected a number of uint8`},
		{"int64", []string{`[[1,0.5]]`}, `0.5 in row 1, place 2; expected a number of int64`},
		{"bool", []string{`[[true,1]]`}, `1 in row 1, place 2; expected true or false of bool`},
		{"string", []string{`[["a",null]]`}, `null in row 1, place 2; expected a text of string`},
		{"fp32", []string{"y=[[1,2]]"}, `--input: the model has no input "y"; expected one of: x`},
		{"pair", []string{"[[1,2]]"}, "--input: [[1,2]] has no name; expected NAME=JSON, with one of: a, b"},
		{"pair", []string{"a=[[1,2]]", "a=[[1,2]]", "b=\"\""}, "--input a: given twice"},
		{"fp32", []string{"[[1,2]] 3"}, "[[1,2]] 3 is no JSON (something follows the value); expected such as '[[0, 0]]'"},
		{"fp32", []string{"[[1,"}, "is no JSON (unexpected EOF)"},
	} {
		text, err := ask(t, &Options{Model: tt.model, Input: tt.inputs, Address: address}, "")
		if _, is := errors.AsType[config.Faults](err); !is || !strings.Contains(err.Error(), tt.want) || text != "" {
			t.Errorf("%s %q: %v\nwant ...%s...", tt.model, tt.inputs, err, tt.want)
		}
	}
}

func TestFailures(t *testing.T) {
	address := serve(t)
	for _, tt := range []struct {
		o     Options
		usage bool
		want  string
	}{
		{Options{Model: "fp23", Address: address}, false, `the server at --address ` + address + `: no model is named "fp23"`},
		{Options{Model: "fp32", Address: address, Version: new(int64(3))}, false, `has no version 3`},
		{
			Options{Model: "fp32", Address: address, Input: []string{"x=@absent.json"}},
			false,
			"--input x: open absent.json: no such file",
		},
		{Options{Model: "fp32", Address: address, Input: []string{"[[1,2]]"}, Output: []string{"y"}}, false, `y`},
		{Options{Model: "fp32", Address: "127.0.0.1:1"}, false, "no server answers at --address 127.0.0.1:1 ("},
		{Options{Model: "fp32", Address: "\x00"}, false, "--address \x00: "},
		{
			Options{Model: "fp32", Address: address, Version: new(int64(-1))},
			true,
			"--version: expected a positive number, found -1",
		},
		{
			Options{Model: "fp32", Address: address, Version: new(int64(0))},
			true,
			"--version: expected a positive number, found 0",
		},
		{Options{Model: "fp32", Address: address, Label: new("")}, true, "--label: expected the label of a version"},
		{Options{Model: "fp32", Address: address, Output: []string{""}}, true, "--output: expected the name of an output"},
	} {
		text, err := ask(t, &tt.o, "")
		_, usage := errors.AsType[config.Faults](err)
		if err == nil || usage != tt.usage || !strings.Contains(err.Error(), tt.want) || text != "" {
			t.Errorf("%+v: %v\nwant ...%s...", tt.o, err, tt.want)
		}
	}
	if err := Run(t.Context(), &Options{}, strings.NewReader(""), io.Discard); err == nil ||
		!strings.Contains(err.Error(), "--timeout: expected a duration above 0") {
		t.Error(err)
	}
}

// TestInputThatNeverEnds is given up when the user does, and takes none of the time for an answer.
func TestInputThatNeverEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	reading := make(chan struct{})
	in := readerFunc(func([]byte) (int, error) {
		close(reading)
		<-t.Context().Done()
		return 0, io.EOF
	})
	go func() {
		<-reading
		cancel()
	}()
	o := Options{Model: "fp32", Address: serve(t), Input: []string{"x=@-"}, Timeout: config.Duration(10e9)}
	var out strings.Builder
	if err := Run(ctx, &o, in, &out); !errors.Is(err, errInterrupted) {
		t.Errorf("%v", err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestQuoted(t *testing.T) {
	for name, want := range map[string]string{"x": "x", "input 1": "'input 1'", "it's": `'it'\''s'`} {
		if got := quoted(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
