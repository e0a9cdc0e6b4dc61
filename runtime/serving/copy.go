package serving

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/weftserve/weft/runtime/modelfile"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// Reader reads a version's files into a private copy; nil: it has none. It tells how many bytes it has copied, and of
// how many, from one goroutine. The error says which file is wrong, and what to do.
type Reader func(ctx context.Context, v modelrepo.Version, told func(done, of int64)) (*modelfile.Files, error)

// copied is the private copy of a version's files. All its replicas are opened from one, so that none differs from the
// others whatever has become of the files: it is read for the first and given up with the last.
type copied struct {
	digest atomic.Pointer[string] // nil: nothing was read yet

	mu    sync.Mutex
	files *modelfile.Files // guarded by mu, as is the rest; nil: there are none
	users int
}

// take returns the copy, which the first caller reads while others wait, and give, which gives it up. give may be
// called more than once: work that was left behind on a lost device, and had its copy given up, may end after all.
func (c *copied) take(ctx context.Context, read Reader,
	v modelrepo.Version, told func(done, of int64),
) (files *modelfile.Files, give func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users == 0 && read != nil {
		files, err := read(ctx, v, told)
		if err != nil {
			return nil, nil, err
		}
		if c.files = files; files != nil {
			digest := files.Digest()
			c.digest.Store(&digest)
		}
	}
	c.users++
	return c.files, sync.OnceFunc(c.give), nil
}

// give closes the copy with its last user.
func (c *copied) give() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users--; c.users == 0 && c.files != nil {
		_ = c.files.Close() // it was only read
		c.files = nil
	}
}

// held returns the copy while somebody has taken it; nil: there is none. Only a caller that has taken it may use it.
func (c *copied) held() *modelfile.Files {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.files
}
