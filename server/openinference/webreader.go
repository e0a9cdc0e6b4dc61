package openinference

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/server/web"
)

// bodyReader reads the JSON of a request into a message, but for its elements, which stay where they lie.
type bodyReader struct {
	web.Scanner

	message *inference.ModelInferRequest
	lists   []web.List // the elements of each input of message, in the same order
	parts   int        // inputs, outputs, parameters and dimensions so far
}

// mostParts is how many inputs, outputs, parameters and dimensions a request in JSON may have together: each takes many
// times the bytes that it has in the body.
const mostParts = 3 << 10

// part counts one of them, and refuses it if it is one too many.
func (b *bodyReader) part() error {
	if b.parts++; b.parts > mostParts {
		return web.Broken("more than %d inputs, outputs, parameters and dimensions, which is very many", mostParts)
	}
	return nil
}

// read reads the whole JSON. Besides the protocol's own form, inputs may come as an object of their names, in "inputs"
// or in its place, and the only input of a model as a list alone.
func (b *bodyReader) read() error {
	begin := b.Scanner
	if b.Kind() == '[' {
		if err := b.named(""); err != nil {
			return err
		}
		return b.End()
	}
	inputs := false
	members := []string{"id", "parameters", "inputs", "outputs"}
	err := b.Members(members, func(i int) (err error) {
		switch i {
		case 0:
			b.message.Id, err = b.String()
		case 1:
			b.message.Parameters, err = parametersOf(&b.Scanner, b.part)
		case 2:
			inputs = true
			if b.Kind() == '{' {
				return b.Object(func(name []byte) error { return b.named(string(name)) })
			}
			err = b.each(b.input)
		case 3:
			err = b.each(b.output)
		}
		return err
	})
	if err != nil || inputs {
		return web.OfBody(cmp.Or(err, b.End()))
	}
	b.Scanner = begin
	err = b.Object(func(name []byte) error {
		if slices.Contains(members, string(name)) {
			return b.Skip()
		}
		return b.named(string(name))
	})
	return web.OfBody(cmp.Or(err, b.End()))
}

// named reads the elements of an input whose name is known, "" for the only one.
func (b *bodyReader) named(name string) error {
	for range 3 { // its message, its name and its shape
		if err := b.part(); err != nil {
			return err
		}
	}
	l, err := b.Nested()
	b.message.Inputs = append(b.message.Inputs, &inference.ModelInferRequest_InferInputTensor{Name: name})
	b.lists = append(b.lists, l)
	return web.InPart("inputs"+parameterKey(name), err)
}

// each reads a list of parts, and counts them. read returns the name of the part that it has read, if that has any:
// errors name a part by that, else by its index.
func (b *bodyReader) each(read func() (name string, err error)) error {
	i := 0
	return b.List(func() error {
		if err := b.part(); err != nil {
			return err
		}
		name, err := read()
		switch {
		case err == nil:
			i++
		case name != "":
			err = web.InPart(parameterKey(name), err)
		default:
			err = web.InPart(fmt.Sprintf("[%d]", i), err)
		}
		return err
	})
}

// input reads an input.
func (b *bodyReader) input() (name string, err error) {
	in := &inference.ModelInferRequest_InferInputTensor{}
	b.message.Inputs = append(b.message.Inputs, in)
	b.lists = append(b.lists, web.List{})
	shaped := false
	err = b.Members([]string{"name", "datatype", "shape", "parameters", "data"}, func(i int) (err error) {
		switch i {
		case 0:
			in.Name, err = b.String()
		case 1:
			in.Datatype, err = b.String()
		case 2:
			shaped = true
			err = b.each(func() (string, error) {
				size, err := b.Whole()
				in.Shape = append(in.Shape, size)
				return "", err
			})
		case 3:
			in.Parameters, err = parametersOf(&b.Scanner, b.part)
		case 4:
			b.lists[len(b.lists)-1], err = b.Count()
		}
		return err
	})
	// Without a shape it is that of the lists.
	if l := &b.lists[len(b.lists)-1]; err == nil && l.Text != nil && !shaped {
		nested := web.Scanner{Text: l.Text, Turn: b.Turn}
		*l, err = nested.Nested()
		err = web.InPart("data", err)
	}
	return in.GetName(), err
}

// output reads an output.
func (b *bodyReader) output() (name string, err error) {
	o := &inference.ModelInferRequest_InferRequestedOutputTensor{}
	b.message.Outputs = append(b.message.Outputs, o)
	err = b.Members([]string{"name", "parameters"}, func(i int) (err error) {
		if i == 0 {
			o.Name, err = b.String()
		} else {
			o.Parameters, err = parametersOf(&b.Scanner, b.part)
		}
		return err
	})
	return o.GetName(), err
}
