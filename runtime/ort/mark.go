package ort

import (
	"bytes"
	"encoding/binary"

	"github.com/weftserve/weft/runtime/tensor"
)

// marks tell whether ONNX Runtime wrote outputs where it was to. It does not always: a value that is also an input, or
// that has two names, may be somewhere else, and the place then holds what an earlier run, of others, left there. So
// each place begins with a mark before the run. Which marks there are changes from run to run, so that what a model
// answers is seldom one.
type marks struct {
	mark   [8]byte
	state  uint64
	placed []int // the outputs that begin with it
}

// next begins another run.
func (m *marks) next() {
	m.state = m.state*6364136223846793005 + 1442695040888963407
	binary.BigEndian.PutUint64(m.mark[:], m.state) // its last bits change least
	m.placed = m.placed[:0]
}

// leave marks the place of an output.
func (m *marks) leave(output int, place []byte) {
	if copy(place, m.mark[:]) > 0 {
		m.placed = append(m.placed, output)
	}
}

// left reports whether an output that was marked begins with the mark: it was not written, or it is that by chance.
func (m *marks) left(outputs []tensor.Tensor) bool {
	for _, o := range m.placed {
		if data := outputs[o].Data; len(data) > 0 && bytes.HasPrefix(m.mark[:], data[:min(len(data), len(m.mark))]) {
			return true
		}
	}
	return false
}
