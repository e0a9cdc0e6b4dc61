// Package activity remembers what the server does: the latest batches and requests, and how each version did in the
// last seconds, the last hour and the last day. The live page, `weft top` and `weft explain` read it, and nothing is
// decided by it.
//
// Everything is bounded: the latest 32,768 batches and 65,536 requests, 65,536 that were refused, and as many that were
// late or ended otherwise without an answer; 4 MiB of names, and as much of errors and of episodes; histories of 64
// versions. What is shown to viewers is put together once for all of them, and only while there are any.
package activity

import (
	"crypto/rand"
	"strconv"
	"strings"
	"sync"
	"time"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/sharedsched"
)

// Config holds the sources of a Log. Models, VersionName and Slot are called with the log's mu held: they must not call
// the log.
type Config struct {
	// Models returns every known model; it must not block.
	Models func() *catalog.Snapshot
	// State returns the state of the scheduler, which the caller owns. It may wait for the scheduler's lock.
	State func() sharedsched.State
	// VersionName returns the name that the scheduler has for a version, such as "model/3"; "" for one that is gone.
	VersionName func(sharedsched.VersionID) string
	// Epoch is when the scheduler's clock began.
	Epoch time.Time
	// Slot returns the name of the traffic entry that leads to a version, "" for none. Nil: there are none.
	Slot func(*catalog.Model, *catalog.Version) string
	// Totals counts the requests for each model, "" for none that there is. Nil: nobody counts.
	Totals func() map[string]*weftv1.RequestTotals
	// GPUs returns what the driver says, by device. Nil: nothing is known.
	GPUs func() map[string]*weftv1.GpuActivity
}

// Log remembers. It implements shell.Observer, is told of requests, and is safe for concurrent use once it watches.
//
// Locks are taken in the order views.mu, reading, histories, mu. A function whose name ends in Locked is called with mu
// held.
type Log struct {
	// run is a random name of this run of the server, by which viewers notice that it was started again.
	run   string
	views views

	Config

	// reading is held while one call looks through all that is remembered, so that there is one such call at a time: each
	// lets go of mu again and again, and many of them would slow down the requests that end. It is taken before the
	// others.
	reading sync.Mutex

	// histories guards the insides of all histories. It is taken before mu.
	histories sync.Mutex
	lanes     int   // of all devices; guarded by histories
	ticked    int64 // seconds that are over, which histories know; guarded by histories

	mu       sync.Mutex
	places   map[place]*tracked // guarded by mu, as all below
	ofModel  map[string][]*tracked
	all      []*tracked                         // by index; nil where one was forgotten
	free     []int32                            // indexes of those
	byID     map[sharedsched.VersionID]*tracked // some of them gone
	batches  ring[batch]
	requests ring[request]
	troubled remembered // what was late, or ended unanswered but for what was refused
	refused  remembered
	words    words
	ids      ids
	messages ids
	episodes ids
	busy     map[string]time.Duration // by device, ever
	history  int                      // versions that have one
	looked   *catalog.Snapshot        // the models that places are in step with
}

// New returns a log of a server that starts.
func New() *Log {
	return &Log{
		run:    rand.Text()[:8],
		places: map[place]*tracked{}, ofModel: map[string][]*tracked{}, byID: map[sharedsched.VersionID]*tracked{},
		batches: ring[batch]{most: keptBatches}, requests: ring[request]{most: keptRequests},
		troubled: remembered{ring: ring[request]{most: keptTroubled}},
		refused:  remembered{ring: ring[request]{most: keptTroubled}},
		words:    words{texts: []string{""}, numbers: map[string]int32{}},
		busy:     map[string]time.Duration{},
	}
}

// Watch sets the sources, once, before the first batch and request.
func (l *Log) Watch(c Config) {
	l.Config = c
}

// now returns the time on the scheduler's clock.
func (l *Log) now() sharedsched.Time { return l.at(time.Now()) }

// ofLocked returns the version that the scheduler knows by a number. A number belongs to one replica, so that it stays
// right once it is in byID, also when the version is gone. One whose name is not known any more is counted for a
// version of no name. The caller holds mu.
func (l *Log) ofLocked(id sharedsched.VersionID, device string) *tracked {
	if t := l.byID[id]; t != nil {
		return t
	}
	name := l.VersionName(id)
	model, version, _ := strings.Cut(name, "/")
	number, _ := strconv.ParseInt(version, 10, 64) // 0: it is gone already, and so is its name
	t := l.placeLocked(place{model, number, device})
	if name != "" {
		l.byID[id] = t
	}
	return t
}

// placeLocked returns what is known of a version on a device, from now on; "" is the first device that it runs on. The
// caller holds mu.
func (l *Log) placeLocked(p place) *tracked {
	if t := l.places[p]; t != nil {
		return t
	}
	// A request that was not executed names no device. It counts where its version runs.
	if p.device == "" {
		if m := l.Models().Model(p.model); m != nil {
			if v := m.Version(p.version); v != nil && v.Device != "" {
				p.device = v.Device
				return l.placeLocked(p)
			}
		}
	}
	// The index of a forgotten version is used again.
	t := &tracked{place: p, index: int32(len(l.all)), lost: map[string]uint64{}}
	if n := len(l.free); n > 0 {
		t.index, l.free = l.free[n-1], l.free[:n-1]
		l.all[t.index] = t
	} else {
		l.all = append(l.all, t)
	}
	l.places[p] = t
	l.ofModel[p.model] = append(l.ofModel[p.model], t)
	return t
}
