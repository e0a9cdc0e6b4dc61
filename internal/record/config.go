package record

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"strconv"
	"sync/atomic"
	"time"
)

// Config says where a Writer records, and which requests and parts of them.
type Config struct {
	// Dir is created if it is not there. Files of earlier recordings in it are never written to; MaxBytes may delete
	// them.
	Dir string
	// Sample is the part of the episodes that is recorded, and of the requests that belong to none: above 0 up to 1. 0:
	// all.
	Sample float64
	// Inputs says how much of their inputs is recorded. Empty: InputsFull.
	Inputs Inputs

	// MaxPending and MaxPendingBytes bound the entries that wait to be written; beyond either, entries are dropped. Too
	// low drops in bursts and while the disk is busy; too high is memory. 0: 8192, and 64 MiB.
	MaxPending      int
	MaxPendingBytes int64

	// A file is ended when it has MaxFileBytes or is MaxFileAge old; an ended file is safe from a failure of the
	// machine. An entry is never divided. 0: 256 MiB, and 10 minutes.
	MaxFileBytes int64
	MaxFileAge   time.Duration

	// MaxBytes bounds the size of all recordings in Dir together, those of earlier processes too: beyond it the oldest
	// files are deleted. A file then has at most a quarter of that, so that no more is lost at once. The bound is
	// passed by one batch at most, that is by 1 MiB or a single entry, and by the bytes written while the disk takes
	// its time to delete. 0: no bound.
	MaxBytes int64

	// Logger gets a record when the disk refuses entries, when it takes them again, and for each file that is deleted.
	// Nil: nothing is logged.
	Logger *slog.Logger
}

// complete replaces zero values by their defaults, and checks the others.
func (c *Config) complete() error {
	c.Sample = cmp.Or(c.Sample, 1)
	c.Inputs = cmp.Or(c.Inputs, InputsFull)
	c.MaxPending = cmp.Or(c.MaxPending, 8192)
	c.MaxPendingBytes = cmp.Or(c.MaxPendingBytes, 64<<20)
	c.MaxFileBytes = cmp.Or(c.MaxFileBytes, 256<<20)
	c.MaxFileAge = cmp.Or(c.MaxFileAge, 10*time.Minute)
	if c.MaxBytes > 0 {
		// A quarter at most goes when the oldest file does.
		c.MaxFileBytes = min(c.MaxFileBytes, max(1, c.MaxBytes/4))
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	switch {
	case c.Dir == "":
		return errors.New("no directory to record into")
	case !(c.Sample > 0 && c.Sample <= 1):
		return fmt.Errorf("sample: expected a number above 0 up to 1, found %v", c.Sample)
	case c.MaxPending < 0 || c.MaxPendingBytes < 0 || c.MaxFileBytes < 0 || c.MaxFileAge < 0 || c.MaxBytes < 0:
		return errors.New("a bound must not be negative")
	}
	return c.Inputs.check()
}

// prepare creates the directory, and a file in it for a moment, so that a mistake is reported when the server starts.
func (c *Config) prepare() error {
	// Data that users sent is nobody else's business.
	if err := os.MkdirAll(c.Dir, 0o750); err != nil {
		return err
	}
	probe, err := os.CreateTemp(c.Dir, ".probe-*")
	if err != nil {
		return err
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// sampler chooses the requests that are recorded. It takes all requests of an episode or none, and decides alike on
// every replica. A request without an episode is chosen by itself.
type sampler struct {
	part   float64       // above 0 up to 1
	serial atomic.Uint64 // numbers the requests that have no name at all
}

// takes reports whether a request is recorded. It depends on nothing but the names, if there is any.
func (s *sampler) takes(episode, request string) bool {
	switch {
	case s.part >= 1:
		return true
	case episode != "":
		return s.below("episode", episode)
	case request != "":
		return s.below("request", request)
	}
	return s.below("serial", strconv.FormatUint(s.serial.Add(1), 10))
}

// below reports whether a name's hash falls into the part that is recorded. The prefix differs from those of other
// hashes, so that the choice does not depend on the version that a rollout chose by the same name.
func (s *sampler) below(kind, name string) bool {
	sum := sha256.Sum256([]byte("weft record " + kind + "\x00" + name))
	return float64(binary.BigEndian.Uint64(sum[:])) < s.part*math.Exp2(64)
}
