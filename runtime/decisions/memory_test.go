package decisions

import (
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// memory is a file system that forgets everything that was not made lasting when it crashes, and stops before any step.
type memory struct {
	left   int   // steps until it stops; negative: it never does
	fails  error // the error that steps return instead of stopping
	locked bool

	entries map[string]*node // as the process sees them, by path
	// changes are those of entries that no SyncDir made lasting, and lasting is the entries without them.
	changes []change
	lasting map[string]*node
}

// node is a file's content; of the last bytes that were written some may be lost.
type node struct {
	text   []byte
	synced int // so many bytes of text are lasting
}

// change is of a directory entry: the file at path, nil if there is none afterwards.
type change struct {
	path string
	to   *node
	// from is the name that a rename took away, in the same step: "" for none.
	from string
}

var errStopped = errors.New("the process was killed")

func newMemory() *memory {
	return &memory{left: -1, entries: map[string]*node{}, lasting: map[string]*node{}}
}

// step is one call that changes something.
func (m *memory) step() error {
	if m.left == 0 {
		if m.fails != nil {
			m.left = -1 // this step alone
			return m.fails
		}
		return errStopped
	}
	if m.left > 0 {
		m.left--
	}
	return nil
}

func (m *memory) stopped() bool { return m.left == 0 && m.fails == nil }

func (m *memory) enter(c change) {
	m.changes = append(m.changes, c)
	c.apply(m.entries)
}

func (c change) apply(entries map[string]*node) {
	if c.from != "" {
		delete(entries, c.from)
	}
	if c.to == nil {
		delete(entries, c.path)
		return
	}
	entries[c.path] = c.to
}

// crash returns the file system as it is found after a power failure. A change of the directory that is not lasting is
// there if its bit in which is set; of contents that are not lasting, so many bytes are there.
func (m *memory) crash(which, bytes int) *memory {
	next := newMemory()
	entries := maps.Clone(m.lasting)
	for i, c := range m.changes {
		if which&(1<<i) != 0 {
			c.apply(entries)
		}
	}
	for path, n := range entries {
		copied := &node{text: slices.Clone(n.text[:min(len(n.text), n.synced+bytes)])}
		copied.synced = len(copied.text)
		next.entries[path], next.lasting[path] = copied, copied
	}
	return next
}

func (m *memory) Mkdir(string) error { return m.step() }

func (m *memory) Lock(string) (lock, error) {
	if m.locked {
		return nil, errLocked
	}
	m.locked = true
	return memoryLock{m}, nil
}

type memoryLock struct{ m *memory }

func (l memoryLock) Held() error { return nil }

func (l memoryLock) Close() error {
	l.m.locked = false
	return nil
}

func (m *memory) List(string) (names []string, err error) {
	for path := range m.entries {
		names = append(names, filepath.Base(path))
	}
	slices.Sort(names)
	return names, nil
}

func (m *memory) Read(path string) ([]byte, error) {
	n := m.entries[path]
	if n == nil {
		return nil, fs.ErrNotExist
	}
	return n.text, nil
}

func (m *memory) Create(path string) (writer, error) {
	if err := m.step(); err != nil {
		return nil, err
	}
	n := m.entries[path]
	if n == nil {
		n = &node{}
		m.enter(change{path: path, to: n})
	}
	n.text, n.synced = nil, 0
	return &unfinished{m, n}, nil
}

func (m *memory) Rename(from, to string) error {
	if err := m.step(); err != nil {
		return err
	}
	m.enter(change{path: to, to: m.entries[from], from: from})
	return nil
}

func (m *memory) Remove(path string) error {
	if err := m.step(); err != nil {
		return err
	}
	m.enter(change{path: path})
	return nil
}

func (m *memory) SyncDir(string) error {
	if err := m.step(); err != nil {
		return err
	}
	m.changes, m.lasting = nil, maps.Clone(m.entries)
	return nil
}

// unfinished is a file that is being written.
type unfinished struct {
	m *memory
	n *node
}

func (f *unfinished) Write(text []byte) (int, error) {
	if err := f.m.step(); err != nil {
		if f.m.fails != nil { // such as a disk that fills up
			f.n.text = append(f.n.text, text[:len(text)/2]...)
		}
		return 0, err
	}
	f.n.text = append(f.n.text, text...)
	return len(text), nil
}

func (f *unfinished) Sync() error {
	if err := f.m.step(); err != nil {
		return err
	}
	f.n.synced = len(f.n.text)
	return nil
}

func (f *unfinished) Close() error {
	if f.m.stopped() {
		return errStopped
	}
	return nil
}

// files lists the existing files.
func (m *memory) files() string {
	return strings.Join(slices.Sorted(func(yield func(string) bool) {
		for path := range m.entries {
			if !yield(filepath.Base(path)) {
				return
			}
		}
	}), " ")
}

// readOnly is a file system that cannot be written to.
type readOnly struct{ *memory }

func (readOnly) Mkdir(dir string) error {
	return &fs.PathError{Op: "mkdir", Path: dir, Err: syscall.EROFS}
}
