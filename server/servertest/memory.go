package servertest

import (
	"sync"
	"testing"
)

// Memory is a tensor.Memory that never hands out anything twice. What is put into it is overwritten, so that a test
// fails where something is used after that. Memory that is put back twice fails the test at once; what was not put back
// does in WantAll.
type Memory struct {
	t testing.TB

	mu   sync.Mutex
	lent map[*byte][]byte // guarded by mu; by the first byte
	put  map[*byte][]byte // guarded by mu; kept, so that nothing else gets their addresses
}

// smallest is the size from which gRPC puts back what it gets. Smaller memory is the garbage collector's, and not
// counted.
const smallest = 1<<10 + 1

// NewMemory returns one for a test.
func NewMemory(t testing.TB) *Memory {
	return &Memory{t: t, lent: map[*byte][]byte{}, put: map[*byte][]byte{}}
}

// Get implements tensor.Memory.
func (m *Memory) Get(size int) *[]byte {
	data := make([]byte, size)
	for i := range data {
		data[i] = 0xa5 // it need not be empty
	}
	if size >= smallest {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.lent[&data[0]] = data
	}
	return &data
}

// Put implements tensor.Memory.
func (m *Memory) Put(data *[]byte) {
	all := (*data)[:cap(*data)]
	if len(all) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, is := m.put[&all[0]]; is {
		m.t.Errorf("%d bytes are given back twice", len(all))
	}
	delete(m.lent, &all[0])
	m.put[&all[0]] = all
	for i := range all {
		all[i] = 0xdb
	}
}

// WantAll wants all that was lent to have been put back.
func (m *Memory) WantAll() {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, data := range m.lent {
		m.t.Errorf("%d bytes were not given back; they begin with %q", len(data), data[:40])
	}
}
