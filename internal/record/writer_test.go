package record

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
)

func TestWhatIsRecordedIsReadBack(t *testing.T) {
	at := time.Date(2026, 1, 2, 15, 4, 5, 678, time.FixedZone("east", 3600))
	full := answered(at, "game-1", 1)
	failed := Entry{
		At: at, LimitUs: 5000, Code: "ResourceExhausted", Message: "the queue is full",
		Model: "walker", Version: 2, Slot: "prod", Request: answered(at, "game-2", 2).Request,
	}

	w := begin(t, Config{}, nil)
	w.Record(full)
	w.Record(failed)
	end(t, w)

	want := []*Entry{&full, &failed}
	full.At, failed.At = at.UTC(), at.UTC()
	full.Model, full.Version, full.Slot, full.Episode = "walker", 7, "canary", "game-1"
	full.QueueUs, full.ComputeUs, full.DeviceUs, full.Device = 11, 22, 5, "cpu"
	full.BatchRequests, full.BatchRows, full.PaddedRows, full.Executions, full.FlushReason = 3, 4, 1, 1,
		"FLUSH_REASON_FULL"
	failed.Episode = "game-2"
	got, damage := readAll(t, open(t, w.config.Dir))
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" || damage != nil {
		t.Errorf("read back (-want +got):\n%s damage %q", diff, damage)
	}
	if got[0].At.Location() != time.UTC {
		t.Errorf("the time is in the zone %v, want UTC", got[0].At.Location())
	}
	stats := w.Stats()
	if stats.Bytes == 0 {
		t.Error("no bytes are counted")
	}
	if diff := cmp.Diff(Stats{Written: 2, Bytes: stats.Bytes}, stats); diff != "" {
		t.Errorf("stats (-want +got):\n%s", diff)
	}
	w.Record(full)
	if got := w.Stats().Dropped; got != 1 {
		t.Errorf("%d dropped after Close, want 1", got)
	}
}

func TestInputsAreLeftOut(t *testing.T) {
	at := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	for _, inputs := range []Inputs{InputsHash, InputsNone} {
		w := begin(t, Config{Inputs: inputs}, nil)
		w.Record(answered(at, "game", 2))
		for range 20 { // maps are ordered differently each time
			w.Record(answered(at, "game", 1))
		}
		end(t, w)
		got, _ := readAll(t, open(t, w.config.Dir))
		want := answered(at, "game", 1).Request
		want.Inputs = nil
		if diff := cmp.Diff(want, got[1].Request, protocmp.Transform()); diff != "" {
			t.Errorf("%s: request (-want +got):\n%s", inputs, diff)
		}
		if got[0].Response.GetOutputs()["y"] == nil {
			t.Errorf("%s: the answer is not recorded", inputs)
		}
		hashes := map[string]int{}
		for _, e := range got {
			hashes[e.InputHash]++
		}
		if inputs == InputsHash && (len(got[0].InputHash) != 64 || len(hashes) != 2 || hashes[got[0].InputHash] != 1) {
			t.Errorf("hashes %v; want one for 20 equal inputs, and another one", hashes)
		}
		if inputs == InputsNone && got[0].InputHash != "" {
			t.Errorf("none: hash %q", got[0].InputHash)
		}
	}
}

func TestEpisodesAreSampledAsAWhole(t *testing.T) {
	w := begin(t, Config{Sample: 0.3, MaxPending: 100_000}, nil)
	const episodes, each = 1000, 3
	for i := range episodes * each {
		w.Record(answered(time.Now(), fmt.Sprint("episode ", i%episodes), float32(i)))
	}
	end(t, w)
	entries, _ := readAll(t, open(t, w.config.Dir))
	seen := map[string]int{}
	for _, e := range entries {
		seen[e.Episode]++
	}
	for episode, n := range seen {
		if n != each {
			t.Errorf("%s: %d of %d requests are recorded", episode, n, each)
		}
	}
	if share := float64(len(seen)) / episodes; share < 0.25 || share > 0.35 { // 3.4 standard errors
		t.Errorf("%v of the episodes are recorded, want 0.3", share)
	}
	// A later version of this program, or another replica, must choose the same ones.
	again := sampler{part: 0.3}
	if got := []bool{
		again.takes("a", ""), again.takes("b", ""), again.takes("c", ""), again.takes("d", ""),
		again.takes("e", ""),
	}; !slices.Equal(got, chosenAtThirty) {
		t.Errorf("of the episodes a to e, %v are recorded; want %v", got, chosenAtThirty)
	}
}

var chosenAtThirty = []bool{false, false, true, false, true}

func TestRequestsWithoutEpisodeAreSampledAlone(t *testing.T) {
	for name, id := range map[string]func(i int) string{
		"by request id": strconv.Itoa,
		"by number":     func(int) string { return "" },
	} {
		s := sampler{part: 0.3}
		n := 0
		for i := range 1000 {
			if s.takes("", id(i)) {
				n++
			}
		}
		if n < 250 || n > 350 {
			t.Errorf("%s: %d of 1000 are recorded, want about 300", name, n)
		}
	}
	s := sampler{part: 0.3}
	for i := range 100 {
		id := strconv.Itoa(i)
		if first, again := s.takes("", id), s.takes("", id); first != again {
			t.Errorf("request %s is recorded once and once not", id)
		}
	}
}

// heldDisk writes when it is let.
type heldDisk struct {
	begun chan struct{}
	let   chan struct{}
}

func (d *heldDisk) create(name string) (file, error) {
	d.begun <- struct{}{}
	<-d.let
	return createFile(name)
}

func TestAFullQueueDrops(t *testing.T) {
	one := answered(time.Now(), "game", 1)
	size := func() int64 {
		q := newQueue(&Config{MaxPending: 1, MaxPendingBytes: 1 << 20})
		q.offer(one)
		return q.bytes
	}()
	for name, c := range map[string]Config{
		"count": {MaxPending: 4},
		"bytes": {MaxPendingBytes: 4*size + size/2},
	} {
		t.Run(name, func(t *testing.T) {
			disk := &heldDisk{begun: make(chan struct{}, 1), let: make(chan struct{})}
			w := begin(t, c, disk.create)
			w.Record(one)
			<-disk.begun // an entry that is being written still takes its room
			for range 5 {
				w.Record(one)
			}
			if diff := cmp.Diff(Stats{Pending: 4, Dropped: 2}, w.Stats()); diff != "" {
				t.Errorf("stats (-want +got):\n%s", diff)
			}
			close(disk.let)
			end(t, w)
			r := open(t, w.config.Dir)
			entries, _ := readAll(t, r)
			if len(entries) != 4 || w.Stats().Written != 4 || w.Stats().Pending != 0 || w.queue.bytes != 0 {
				t.Errorf("%d entries, %+v, %d bytes; want 4, none pending", len(entries), w.Stats(), w.queue.bytes)
			}
			if got := r.Missed(); got != 2 {
				t.Errorf("the recording tells of %d missed entries, want 2", got)
			}
		})
	}
}

func TestCloseGivesUp(t *testing.T) {
	disk := &heldDisk{begun: make(chan struct{}, 1), let: make(chan struct{})}
	w := begin(t, Config{}, disk.create)
	w.Record(answered(time.Now(), "game", 1))
	<-disk.begun
	w.Record(answered(time.Now(), "game", 2))
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("no time")
	cancel(why)
	if err := w.Close(ctx); !errors.Is(err, why) {
		t.Errorf("Close returned %v, want what ended the context", err)
	}
	close(disk.let)
	<-w.ended
	if diff := cmp.Diff(Stats{Written: 1, Lost: 1, Bytes: w.Stats().Bytes}, w.Stats()); diff != "" {
		t.Errorf("stats (-want +got):\n%s", diff)
	}
}

func TestFilesAreRotated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := begin(t, Config{MaxFileBytes: 1500, MaxFileAge: time.Minute}, nil)
		record := func(n int) {
			for i := range n {
				w.Record(answered(time.Now(), "game", float32(i)))
				synctest.Wait()
			}
		}
		record(9) // of some 600 bytes
		bySize := len(files(t, w.config.Dir))
		if bySize < 3 || bySize > 5 {
			t.Errorf("9 entries are in %d files, want 3 to 5 of about 1500 bytes", bySize)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if w.out.file != nil {
			t.Error("a file that is an hour old is still open")
		}
		if got := len(files(t, w.config.Dir)); got != bySize {
			t.Errorf("%d files after an hour without entries, want %d as before", got, bySize)
		}
		record(1)
		time.Sleep(time.Hour)
		record(1)
		end(t, w)
		names := files(t, w.config.Dir)
		if len(names) != bySize+2 {
			t.Errorf("%d files, want 2 more than %d: an old one takes no entry", len(names), bySize)
		}
		for _, name := range names {
			if !strings.HasPrefix(filepath.Base(name), "20000101T0") || !strings.HasSuffix(name, "Z.weftrec") {
				t.Errorf("name %s", name)
			}
		}
		entries, damage := readAll(t, open(t, w.config.Dir))
		if len(entries) != 11 || damage != nil ||
			!slices.IsSortedFunc(entries, func(a, b *Entry) int { return a.At.Compare(b.At) }) {
			t.Errorf("%d entries, damage %q; want 11 in order", len(entries), damage)
		}
	})
}

func TestNamesDoNotMeet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the clock stands still
		dir := t.TempDir()
		for range 3 {
			w := begin(t, Config{Dir: dir}, nil)
			w.Record(answered(time.Now(), "game", 1))
			end(t, w)
		}
		if entries, damage := readAll(t, open(t, dir)); len(entries) != 3 || damage != nil {
			t.Errorf("%d entries, damage %q; want the 3 of 3 recordings", len(entries), damage)
		}
	})
}

func TestADirectoryThatCannotBeWritten(t *testing.T) {
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, c := range map[string]Config{
		"file: not a directory; choose another":           {Dir: filepath.Join(blocked, "sub")},
		"no directory":                                    {},
		"above 0 up to 1, found 2":                        {Dir: t.TempDir(), Sample: 2},
		`expected full, hash or none, found "everything"`: {Dir: t.TempDir(), Inputs: "everything"},
		"must not be negative":                            {Dir: t.TempDir(), MaxFileAge: -1},
	} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New(%+v): %v; want %q", c, err, want)
		}
	}
}

func TestRecordFromMany(t *testing.T) {
	w := begin(t, Config{MaxPending: 50, MaxFileBytes: 5000}, nil)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for k := range 200 {
				w.Record(answered(time.Now(), strconv.Itoa(i), float32(k)))
				w.Stats()
			}
		})
	}
	wg.Wait()
	end(t, w)
	s := w.Stats()
	entries, damage := readAll(t, open(t, w.config.Dir))
	if s.Written+s.Dropped != 1600 || s.Pending != 0 || s.Lost != 0 || int64(len(entries)) != s.Written ||
		damage != nil {
		t.Errorf("%+v, %d entries, damage %q; want 1600 written or dropped, the written ones in the files", s,
			len(entries), damage)
	}
}
