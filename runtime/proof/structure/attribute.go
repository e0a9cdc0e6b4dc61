package structure

import "github.com/weftserve/weft/proto/gen/onnx"

// Readers of the attributes of a rule's node. The rule gives up where one is of another type than it must be.

// integer reads an attribute.
func (c *call) integer(name string, otherwise int64) int64 {
	a := c.attrs[name]
	if a == nil {
		return otherwise
	}
	if a.GetType() != onnx.AttributeProto_INT {
		c.no("its attribute %q is no integer", name)
	}
	return a.GetI()
}

// hint is integer for an attribute that a rule can do without: one of another type is the engine's to refuse. It is
// still the reason if the rule gives up later.
func (c *call) hint(name string, otherwise int64) int64 {
	n := otherwise
	c.attempt(func() { n = c.integer(name, otherwise) })
	return n
}

// flag reads an attribute that is a flag. Engines read other numbers than 0 and 1 as the one or the other.
func (c *call) flag(name string, otherwise bool) bool {
	n := c.integer(name, truth(otherwise))
	if n != 0 && n != 1 {
		c.no("its attribute %q is neither 0 nor 1", name)
	}
	return n == 1
}

// integers reads an attribute that is a list; nil: the node does not have it.
func (c *call) integers(name string) []int64 {
	a := c.attrs[name]
	if a == nil {
		return nil
	}
	if a.GetType() != onnx.AttributeProto_INTS {
		c.no("its attribute %q is no list of integers", name)
	}
	return append([]int64{}, a.GetInts()...)
}

// text reads an attribute.
func (c *call) text(name, otherwise string) string {
	a := c.attrs[name]
	if a == nil {
		return otherwise
	}
	if a.GetType() != onnx.AttributeProto_STRING {
		c.no("its attribute %q is no string", name)
	}
	return string(a.GetS())
}
