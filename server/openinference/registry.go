package openinference

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/routing"
	"github.com/weftserve/weft/server/status"
)

const (
	// maxRegions bounds how many regions are registered: each holds a file open.
	maxRegions = 1024
	// maxNameBytes bounds names and keys, as the file system bounds its names.
	maxNameBytes = 255
	// folder is where the kernel shows POSIX shared memory.
	folder = "/dev/shm"
)

// Registry keeps the regions of shared memory that clients have registered. Nil: shared memory is off, and its methods
// say so or do nothing. It is safe for concurrent use.
type Registry struct {
	most int64        // the bound on held
	held atomic.Int64 // bytes that were read from regions and are in use

	mu      sync.Mutex
	regions map[string]*region // guarded by mu
}

// NewRegistry returns a registry without regions. At most so many bytes that were read from regions may be in use at
// once.
func NewRegistry(most int64) *Registry { return &Registry{most: most, regions: map[string]*region{}} }

// region is registered shared memory. Its file is open until it is unregistered and nobody uses it any more: a request
// that has begun to use it must find the same bytes until its end, whatever its key leads to by then. It is immutable
// but for uses.
type region struct {
	Region

	file *os.File
	uses atomic.Int64 // parts that are in use, and one while it is registered
}

// Region says what was registered.
type Region struct {
	Name, Key string // as clients call it, and as shm_open does
	// Offset is where the region begins in the shared memory, Size how many bytes it has.
	Offset, Size int64
}

// release ends one use, and closes the file with the last.
func (r *region) release() {
	if r.uses.Add(-1) == 0 {
		_ = r.file.Close() // nothing is buffered
	}
}

// Register registers size bytes from offset on of the shared memory that shm_open knows by that key. The error is a
// *tensor.FieldError of a field of the call, or a *status.ExistsError.
func (r *Registry) Register(name, key string, offset, size uint64) error {
	if name == "" || len(name) > maxNameBytes {
		return &tensor.FieldError{
			Field: "name", Want: fmt.Sprintf("the name of a region, of at most %d bytes", maxNameBytes), Got: brief(name),
		}
	}
	file, err := openRegion(key)
	if err != nil {
		return err
	}
	added := false // then the region owns the file
	defer func() {
		if !added {
			_ = file.Close()
		}
	}()
	has, err := sizeOf(file) // of now: Read and Write look again, since its owner may make it shorter
	if err != nil {
		return err
	}
	if size == 0 || size > uint64(has) || offset > uint64(has)-size {
		return &tensor.FieldError{
			Field: "byte_size",
			Want:  fmt.Sprintf("at least 1 byte, and with the offset at most the %d bytes that %s has", has, brief(key)),
			Got:   fmt.Sprintf("%d bytes at offset %d", size, offset),
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.regions[name] != nil:
		return &status.ExistsError{What: "a region named " + routing.Quote(name), Remedy: "unregister it first"}
	case len(r.regions) >= maxRegions: // nobody unregisters for a caller that is gone
		return &tensor.FieldError{
			Field: "name", Want: fmt.Sprintf("at most %d regions", maxRegions), Got: "one more; unregister some",
		}
	}
	fresh := &region{Region: Region{name, key, int64(offset), int64(size)}, file: file}
	fresh.uses.Store(1)
	r.regions[name], added = fresh, true
	return nil
}

// openRegion opens the shared memory of a key. It does not follow a link, nor wait for the other end of a pipe: any
// user of the machine may put either into the folder, and the server would read or write what that user may not, or
// hang.
func openRegion(key string) (*os.File, error) {
	fault := func(want, got string) (*os.File, error) {
		return nil, &tensor.FieldError{Field: "key", Want: want, Got: got}
	}
	name := strings.TrimPrefix(key, "/")
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") || len(name) > maxNameBytes {
		return fault("the key of POSIX shared memory, such as /weft: one name behind a slash", brief(key))
	}
	const memory = "shared memory that is there, and that the server's user may read and write"
	file, err := os.OpenFile(filepath.Join(folder, name), os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		if why, is := errors.AsType[*fs.PathError](err); is {
			err = why.Err // without the path, which callers need not know
		}
		return fault(memory, fmt.Sprintf("%s: %v", brief(key), err))
	}
	// A pipe or a device opens as well. The open file is asked, which nobody can exchange any more.
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		_ = file.Close()
		return fault(memory, brief(key)+", which is none")
	}
	return file, nil
}

func sizeOf(file *os.File) (int64, error) {
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// brief quotes a name for an error, or says how long it is: one that is too long is not repeated.
func brief(name string) string {
	if len(name) > maxNameBytes {
		return strconv.Itoa(len(name)) + " bytes"
	}
	return routing.Quote(name)
}

// Unregister forgets a region, or all of them where the name is empty, and returns the names of the regions that are
// gone. Requests that use one end as if it were still there.
func (r *Registry) Unregister(name string) (gone []string) {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for other, region := range r.regions {
		if name == "" || name == other {
			delete(r.regions, other)
			region.release()
			gone = append(gone, other)
		}
	}
	slices.Sort(gone)
	return gone
}

// List returns the regions by their names, or the one of that name. The error is a *status.AbsentError: there is none
// of that name.
func (r *Registry) List(name string) ([]Region, error) {
	var all []Region
	if r != nil {
		r.mu.Lock()
		for _, region := range r.regions {
			if name == "" || name == region.Name {
				all = append(all, region.Region)
			}
		}
		r.mu.Unlock()
	}
	if name != "" && len(all) == 0 {
		return nil, absent("name", name)
	}
	slices.SortFunc(all, func(a, b Region) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// absent is the error of a field that names a region which is not registered.
func absent(field, name string) error {
	return &status.AbsentError{
		What: field + ": no region of shared memory is named " + brief(name), Remedy: "register it",
	}
}
