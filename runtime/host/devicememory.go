package host

import "github.com/weftserve/weft/runtime/engine"

// held returns what tells how many bytes of its device's memory a session holds; nil if it does not tell.
func held(m *engine.Meter) func() int64 {
	if opened, _ := m.Last(); !opened.Memory.Known {
		return nil
	}
	return func() int64 { return m.Read().Memory.Held }
}
