package elements

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/predict"
)

// Came is what a message has for the elements of a tensor.
type Came struct {
	// Sizes are those of the fields that generated code decoded, and Raw and Texts the contents of two of them. The
	// numbers of the typed lists are asked for only when they are used, see Decode.
	Sizes Sizes
	Raw   []byte
	Texts [][]byte
	// Left are elements that were left where they lay; Sizes do not count them. Decode adds them.
	Left Elements
}

// Decode reads the tensor of an input from what a message has. packed returns a list of numbers that generated code
// decoded, as it lies in a message; it is not called where there is none. The error is a *tensor.FieldError whose field
// is the part of the message, "" for the whole of it.
//
// The shape is checked first, then which field has the elements, then how many it has, and the elements last.
//
// Data that came raw, and floats of a typed list, are the message's own memory, not copies. Otherwise decoding
// allocates at most 8 bytes for each byte received (an int64 that travelled as one byte); a size that a message merely
// claims costs nothing.
func (p *Protocol) Decode(input *tensor.Spec, shape tensor.Shape, c *Came, packed func(List) []byte,
) (tensor.Tensor, Form, error) {
	out := tensor.Tensor{DType: input.DType, Shape: shape}
	count, err := predict.Elements(input, out.Shape)
	if err != nil {
		return tensor.Tensor{}, Absent, err
	}
	if c.Left.List != None {
		c.Sizes[c.Left.List] = c.Left.Count
	}
	used, err := p.used(out.DType, out.Shape, count, &c.Sizes)
	switch {
	case err != nil || used == None:
		return out, Absent, err
	case used == Raw: // as the tensor has it, but for bools and texts, whose bytes may be wrong
		if out.Data = c.Raw; c.Left.List == Raw {
			c.Left.Lend(&out)
		}
		return out, AsRaw, p.checkRaw(&out, count)
	case int64(c.Sizes[used]) != count:
		return out, Typed, fault(p.Names[used],
			fmt.Sprintf("%d elements (shape %v)", count, out.Shape), fmt.Sprintf("%d elements", c.Sizes[used]))
	case used == Texts:
		out.Data = packStrings(c.Texts)
		return out, Typed, nil
	case c.Left.List == None: // generated code decoded the list: from here on it is as if it had been left
		c.Left = Elements{used, c.Sizes[used], [][]byte{packed(used)}}
	}
	return out, Typed, c.Left.fill(&out, p)
}

// fill sets the data of a tensor to a typed list that has as many elements. An element that the type cannot hold is
// refused with its index.
func (e *Elements) fill(t *tensor.Tensor, p *Protocol) error {
	if t.DType == tensor.Float32 || t.DType == tensor.Float64 { // they lie in a message as they do in a tensor
		e.Lend(t)
		return nil
	}
	data, bad, value := pack(t.DType, e)
	if t.Data = data; bad < 0 {
		return nil
	}
	low, high := bounds(t.DType)
	return fault(fmt.Sprintf("%s[%d]", p.Names[e.List], bad), fmt.Sprintf("%v (%d to %d)", t.DType, low, high),
		strconv.FormatInt(value, 10))
}

// Lend gives a tensor its data where they lie, without a copy: in Data if they are in one piece, else in Pieces.
func (e *Elements) Lend(t *tensor.Tensor) {
	if t.Pieces = e.Pieces; len(e.Pieces) == 1 {
		t.Data, t.Pieces = e.Pieces[0], nil
	}
}

// checkRaw wants raw data to have the bytes of count elements, and bools and texts to be sound. The bytes of any other
// type are always sound.
func (p *Protocol) checkRaw(t *tensor.Tensor, count int64) error {
	if t.DType == tensor.String {
		return p.checkTexts(t, count)
	}
	if want, got := count*int64(t.DType.Size()), t.Size(); int64(got) != want {
		return fault(p.Names[Raw],
			fmt.Sprintf("%d bytes (shape %v of %v)", want, t.Shape, t.DType), fmt.Sprintf("%d bytes", got))
	}
	return CheckBools(p.Names[Raw], t)
}

// CheckBools wants each raw bool of a tensor, which came in that field, to be 0 or 1.
func CheckBools(field string, t *tensor.Tensor) error {
	if t.DType != tensor.Bool {
		return nil
	}
	at := 0
	for run := range t.Runs() {
		if i := slices.IndexFunc(run, func(b byte) bool { return b > 1 }); i >= 0 {
			return fault(field, "0 or 1 for each bool", fmt.Sprintf("%d at byte %d", run[i], at+i))
		}
		at += len(run)
	}
	return nil
}

// checkTexts joins raw texts that came in pieces, because one may lie across two of them, and checks that there are as
// many as the shape says.
func (p *Protocol) checkTexts(t *tensor.Tensor, count int64) error {
	if len(t.Pieces) > 0 {
		t.Data, t.Pieces = slices.Concat(t.Pieces...), nil
	}
	n, rest := int64(0), t.Data
	for ; len(rest) > 0; n++ {
		_, after, ok := tensor.NextString(rest)
		if !ok {
			return fault(p.Names[Raw], "texts that each have their length in four bytes before them",
				fmt.Sprintf("one that is cut short, at byte %d", len(t.Data)-len(rest)))
		}
		rest = after
	}
	if n != count {
		return fault(p.Names[Raw], fmt.Sprintf("%d texts (shape %v)", count, t.Shape), fmt.Sprintf("%d texts", n))
	}
	return nil
}

// fault returns the error of a part of a message; the pipeline adds the name of the input.
func fault(part, want, got string) error {
	return &tensor.FieldError{Field: part, Want: want, Got: got}
}
