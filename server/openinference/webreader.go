package openinference

import (
	"fmt"

	"github.com/weftserve/weft/proto/gen/inference"
)

// bodyReader reads the JSON of a request into a message, but for its elements, which stay where they lie.
type bodyReader struct {
	scanner

	message *inference.ModelInferRequest
	lists   []list // the elements of each input of message, in the same order
	parts   int    // inputs, outputs, parameters and dimensions so far
}

// mostParts is how many inputs, outputs, parameters and dimensions a request in JSON may have together: each takes many
// times the bytes that it has in the body.
const mostParts = 1 << 12

// part counts one of them, and refuses it if it is one too many.
func (b *bodyReader) part() error {
	if b.parts++; b.parts > mostParts {
		return broken("more than %d inputs, outputs, parameters and dimensions, which is very many", mostParts)
	}
	return nil
}

// read reads the whole JSON.
func (b *bodyReader) read() error {
	err := b.members([]string{"id", "parameters", "inputs", "outputs"}, func(i int) (err error) {
		switch i {
		case 0:
			b.message.Id, err = b.string()
		case 1:
			b.message.Parameters, err = b.parameters(b.part)
		case 2:
			err = b.each(b.input)
		case 3:
			err = b.each(b.output)
		}
		return err
	})
	if err != nil {
		return err
	}
	return b.end()
}

// each reads a list of parts, and counts them. read returns the name of the part that it has read, if that has any:
// errors name a part by that, else by its index.
func (b *bodyReader) each(read func() (name string, err error)) error {
	i := 0
	return b.list(func() error {
		if err := b.part(); err != nil {
			return err
		}
		name, err := read()
		switch {
		case err == nil:
			i++
		case name != "":
			err = inPart(parameterKey(name), err)
		default:
			err = inPart(fmt.Sprintf("[%d]", i), err)
		}
		return err
	})
}

// input reads an input.
func (b *bodyReader) input() (name string, err error) {
	in := &inference.ModelInferRequest_InferInputTensor{}
	b.message.Inputs = append(b.message.Inputs, in)
	b.lists = append(b.lists, list{})
	err = b.members([]string{"name", "datatype", "shape", "parameters", "data"}, func(i int) (err error) {
		switch i {
		case 0:
			in.Name, err = b.string()
		case 1:
			in.Datatype, err = b.string()
		case 2:
			err = b.each(func() (string, error) {
				size, err := b.whole()
				in.Shape = append(in.Shape, size)
				return "", err
			})
		case 3:
			in.Parameters, err = b.parameters(b.part)
		case 4:
			err = b.data(&b.lists[len(b.lists)-1])
		}
		return err
	})
	return in.GetName(), err
}

// data passes over the elements of an input, and counts them. What they are is not looked at: that needs the model's
// type.
func (b *bodyReader) data(to *list) error {
	b.kind()
	begin := b.at
	if err := b.elements(func() error {
		_, err := b.scalar()
		to.count++
		return err
	}); err != nil {
		return err
	}
	to.text = b.text[begin:b.at]
	return nil
}

// output reads an output.
func (b *bodyReader) output() (name string, err error) {
	o := &inference.ModelInferRequest_InferRequestedOutputTensor{}
	b.message.Outputs = append(b.message.Outputs, o)
	err = b.members([]string{"name", "parameters"}, func(i int) (err error) {
		if i == 0 {
			o.Name, err = b.string()
		} else {
			o.Parameters, err = b.parameters(b.part)
		}
		return err
	})
	return o.GetName(), err
}
