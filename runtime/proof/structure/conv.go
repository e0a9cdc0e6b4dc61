package structure

import "slices"

// Convolutions, pooling, and normalisations of images: the first dimension counts images, the second channels.
var convOperators = tableOf(
	each("", operator{apply: conv(1)}, "Conv"),
	each("", operator{apply: convTranspose}, "ConvTranspose"),
	each("", operator{apply: pool}, "AveragePool", "MaxPool", "LpPool"),
	each("", operator{apply: globalPool}, "GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"),
	each("", operator{apply: batchNormalization}, "BatchNormalization"),
	each("", operator{apply: imagewise}, "InstanceNormalization", "GroupNormalization", "LRN"),
)

// images returns the first input, whose rows must be images, and demands that all others are the same for all rows.
func (c *call) images() *value {
	v := c.data(0)
	c.uniform(1)
	if v.rank() < 2 {
		c.no("it needs images, with channels in dimension 1")
	}
	if v.kind == rows && v.axis != 0 {
		c.meets(0, "works across")
	}
	return v
}

// imagewise keeps the shape.
func imagewise(c *call) []*value {
	v := c.images()
	return same(v)
}

// conv is the rule of a convolution whose kernel is the input at weights.
func conv(weights int) rule {
	return func(c *call) []*value {
		w := c.data(weights)
		c.sweeps(w.dims)
		v := c.images()
		if w.rank() != v.rank() {
			return c.no("its kernel does not fit %d dimensions", v.rank())
		}
		return []*value{like(v, append([]dim{v.dims[0], w.dims[0]}, c.windows(v.dims[2:], w.dims[2:])...), 0)}
	}
}

func convTranspose(c *call) []*value {
	v := c.images()
	dims := []dim{v.dims[0]}
	for range v.rank() - 1 {
		dims = append(dims, c.fresh())
	}
	return []*value{like(v, dims, 0)}
}

// pool gives the values only: where the largest one was is counted through all images.
func pool(c *call) []*value {
	window := []dim{one, one}
	for _, n := range c.integers("kernel_shape") {
		window = append(window, size(n))
	}
	c.sweeps(window)
	v := c.images()
	return []*value{like(v, append([]dim{v.dims[0], v.dims[1]}, c.windows(v.dims[2:], window[2:])...), 0)}
}

// sweeps gives up where a window of several entries moves along the dimension of the rows: these are sure to meet.
func (c *call) sweeps(window []dim) {
	if v := c.data(0); v.kind == rows && v.axis >= 2 && v.axis < len(window) {
		if n, fixed := window[v.axis].fixed(); fixed && n > 1 {
			c.mingles("moves a window along")
		}
	}
}

// windows is how often a window fits into each dimension; a new symbol where that is not known.
func (c *call) windows(dims, kernel []dim) []dim {
	out := make([]dim, len(dims))
	for i := range out {
		out[i] = c.p.symbol(extent{positive: true, bits: sizeBits}) // a window that does not fit is refused
	}
	var pads, strides, dilations []int64
	var auto string
	var ceil bool
	if !c.attempt(func() {
		pads, strides, dilations = c.integers("pads"), c.integers("strides"), c.integers("dilations")
		auto, ceil = c.text("auto_pad", "NOTSET"), c.flag("ceil_mode", false)
	}) {
		c.reason = ""
		return out
	}
	if len(kernel) != len(dims) || auto != "NOTSET" {
		return out
	}
	for i, d := range dims {
		n, okN := d.fixed()
		k, okK := kernel[i].fixed()
		before, after, stride, dilation := entry(pads, i, 0), entry(pads, len(dims)+i, 0), entry(strides, i, 1),
			entry(dilations, i, 1)
		if !okN || !okK || ceil || k < 1 || stride < 1 || dilation < 1 || !small(before) || !small(after) ||
			!small(k) || !small(dilation) {
			continue
		}
		if room := n + before + after - dilation*(k-1) - 1; room >= 0 {
			out[i] = size(room/stride + 1)
		}
	}
	return out
}

func entry(list []int64, i int, otherwise int64) int64 {
	if i < len(list) {
		return list[i]
	}
	return otherwise
}

func globalPool(c *call) []*value {
	if v := c.data(0); v.kind == rows && v.axis >= 2 {
		return c.mingles("pools")
	}
	v := c.images()
	dims := slices.Clone(v.dims)
	for i := 2; i < len(dims); i++ {
		dims[i] = one
	}
	return []*value{like(v, dims, 0)}
}

// batchNormalization computes statistics over its images where it is trained.
func batchNormalization(c *call) []*value {
	v := c.images()
	switch training := c.flag("training_mode", false); {
	case training && c.version >= 14:
		return c.mixed("it computes statistics over dimension 0, as in training")
	case training || c.outputs(1):
		return c.no("it computes statistics over dimension 0, as in training")
	}
	return same(v)
}
