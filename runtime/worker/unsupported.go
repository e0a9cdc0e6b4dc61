//go:build !linux

package worker

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/weftserve/weft/runtime/engine"
)

var errSystem = errors.New("workers need Linux: sealed shared memory, eventfd and /proc")

// Supported returns why this system cannot have workers.
func Supported() error { return errSystem }

// Serve fails.
func Serve(Engine) error { return errSystem }

// Pool has no workers.
type Pool struct{}

// NewPool returns a pool that opens nothing.
func NewPool(Config) *Pool { return &Pool{} }

// Open fails.
func (*Pool) Open(context.Context, Place, any, *os.File, engine.Try) (engine.Opened, error) {
	return engine.Opened{}, errSystem
}

// Stats returns nothing.
func (*Pool) Stats() (map[string]time.Time, map[Death]uint64) { return nil, nil }

// Memory returns nothing.
func (*Pool) Memory() (map[string]int64, int64) { return nil, 0 }

// Held returns nothing.
func (*Pool) Held() int64 { return 0 }

// Lose does nothing.
func (*Pool) Lose(string, error) {}

// Close does nothing.
func (*Pool) Close() {}
