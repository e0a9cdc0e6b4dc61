// Package elements reads the elements of tensors from messages: they are raw, or in lists by their type.
//
// A prediction's message is mostly one such list. gRPC leaves it in several buffers; generated code would copy it into
// one, decode it into a slice, and the pipeline would copy that into the memory of a batch. Here the lists stay where
// gRPC has them ([Source]) until they are copied once, into the batch.
//
// There are two ways to leave them there. A [Scan] decodes a message field by field; the messages that its reader can
// decode so are called plain, and package wire says which those of weft.v1 are. [Lifted], for the other protocols,
// takes the large values out of a message and has generated code decode the rest. Both leave to generated code what
// they do not take.
package elements

import (
	"fmt"
	"strings"

	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/protect"
)

// Form is the way in which a message carries elements.
type Form uint8

// The forms of messages.
const (
	Absent Form = iota // no elements
	AsRaw
	Typed
)

// List is one of the fields in which a message may carry elements. Of each protocol a field belongs to each list; those
// of weft.v1 are in this order, see field in package wire.
type List uint8

// The lists. Lists is how many there are.
const (
	// None: the elements are not in a list that was left where it lay, or there are none.
	None List = iota
	Raw
	Float
	Double
	Int32
	Int64
	Uint32
	Uint64
	Bool
	Texts
	Lists
)

// typedLists are the typed lists that belong to element types. Protobuf has no numbers of one or two bytes, so those go
// with the next larger ones.
var typedLists = [...]List{
	tensor.Float16: Float, tensor.BFloat16: Float, tensor.Float32: Float, tensor.Float64: Double,
	tensor.Int8: Int32, tensor.Int16: Int32, tensor.Int32: Int32, tensor.Int64: Int64,
	tensor.Uint8: Uint32, tensor.Uint16: Uint32, tensor.Uint32: Uint32, tensor.Uint64: Uint64,
	tensor.Bool: Bool, tensor.String: Texts,
}

// Protocol says what the fields of a protocol are called, for errors, and what each may carry.
type Protocol struct {
	Names [Lists]string
	// RawTexts: texts may be raw, each as its length in four bytes and then itself.
	RawTexts bool
	// RawHalves: fp16 and bf16 are raw only.
	RawHalves bool
}

// Sizes counts the contents of each field of a message: bytes of Raw, elements of the lists. An empty list cannot be
// told from a missing one.
type Sizes [Lists]int

// names lists the fields that hold something.
func (p *Protocol) names(s *Sizes) string {
	var names []string
	for l, size := range s {
		if size > 0 {
			names = append(names, p.Names[l])
		}
	}
	return strings.Join(names, " and ")
}

// used returns the field that carries the elements, and refuses them unless it is the only one, fits the element type,
// and is there when there are elements. It does not compare their number, since Raw counts bytes.
func (p *Protocol) used(dtype tensor.DType, shape tensor.Shape, count int64, sizes *Sizes) (List, error) {
	present, used := 0, None
	for l, size := range sizes {
		if size > 0 {
			used = List(l)
			present++
		}
	}
	switch {
	case present > 1:
		return None, fault("", "one representation of the elements", p.names(sizes))
	case used == None && count > 0:
		return None, fault("", fmt.Sprintf("%d elements (shape %v) in %s", count, shape, p.listsFor(dtype)), "none")
	// The field is not one for this type.
	case used == Raw && !p.raw(dtype), used > Raw && (used != typedLists[dtype] || !p.typed(dtype)):
		want := fmt.Sprintf("%v elements in %s", dtype, p.listsFor(dtype))
		return None, fault(p.Names[used], want, p.Names[used])
	}
	return used, nil
}

// raw reports whether elements of a type may be raw, and typed whether they may be in a typed list.
func (p *Protocol) raw(dtype tensor.DType) bool { return dtype != tensor.String || p.RawTexts }

func (p *Protocol) typed(dtype tensor.DType) bool {
	return !p.RawHalves || dtype != tensor.Float16 && dtype != tensor.BFloat16
}

// listsFor names the fields that may carry elements of a type.
func (p *Protocol) listsFor(dtype tensor.DType) string {
	switch {
	case !p.raw(dtype):
		return p.Names[Texts]
	case !p.typed(dtype):
		return p.Names[Raw]
	}
	return p.Names[Raw] + " or " + p.Names[typedLists[dtype]]
}

// Elements are those of a tensor, as they came in a list of a message.
type Elements struct {
	List   List
	Count  int      // of Raw: bytes
	Pieces [][]byte // as the list lies in the message; its own memory, unless generated code decoded the list
}

// Counted returns how many numbers a packed list has, or bytes if it is raw. It is not ok if the last number is cut
// short, or if the numbers would take more memory than protect.MostDecoded allows. Numbers of fixed size are not read;
// time grows with the bytes of the others.
func Counted(l List, data Source) (count int, ok bool) {
	size := data.Size()
	switch {
	case l == Raw:
		return size, true
	case l == Float:
		return size / 4, size%4 == 0
	case l == Double:
		return size / 8, size%8 == 0
	}
	// A varint may have any length: the bytes must be read to be counted. That may take long, and lets others in.
	var turn protect.Turn
	for ok = true; ok && data.Size() > 0; count++ {
		turn.Step(1)
		_, ok = data.Varint()
	}
	return count, ok && 8*count <= protect.MostDecoded(size)
}
