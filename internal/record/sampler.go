package record

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"strconv"
	"sync/atomic"
)

// sampler chooses the requests that are recorded: all requests of an episode or none, on every replica alike; a request
// without an episode by itself.
type sampler struct {
	part   float64       // above 0 up to 1
	serial atomic.Uint64 // numbers the requests that have no name at all
}

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

// below hashes with a prefix of its own: whether a request is recorded must not depend on the version that it was sent
// to.
func (s *sampler) below(kind, name string) bool {
	sum := sha256.Sum256([]byte("weft record " + kind + "\x00" + name))
	return float64(binary.BigEndian.Uint64(sum[:])) < s.part*math.Exp2(64)
}
