package record

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestOldRecordingsAreDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		write := func(name string, content []byte) string {
			t.Helper()
			name = filepath.Join(dir, name)
			if err := os.WriteFile(name, content, 0o600); err != nil {
				t.Fatal(err)
			}
			return name
		}
		content, _ := recorded(t)
		laterFormat := slices.Clone(content)
		laterFormat[len(magic)]++
		const earlier = "19990102T150405.00000000"
		others := []string{
			write("notes.txt", content),
			write("1.weftrec", content),                          // of another name
			write(earlier+"0Z.weftrec.bak", content),             // likewise
			write(earlier+"1Z.weftrec", []byte("a diary")),       // no recording
			write(earlier+"2Z.weftrec", laterFormat),             // of another format
			write(filepath.Join("..", "elsewhere"), content),     // a link leads here
			filepath.Join(dir, earlier+"3Z.weftrec"),             // which is that link
			filepath.Join(dir, earlier+"4Z.weftrec", "any"),      // in a folder of such a name
			write("20260230T150405.000000000Z.weftrec", content), // no such day
		}
		if err := os.Symlink(others[5], others[6]); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(others[7], 0o700); err != nil {
			t.Fatal(err)
		}
		held := write(earlier+"5Z.weftrec", content) // another process writes it
		holder, err := os.Open(held)
		if err != nil {
			t.Fatal(err)
		}
		defer holder.Close()
		if err := lock(holder); err != nil {
			t.Fatal(err)
		}
		// of an earlier run
		mine := []string{write(earlier+"6Z.weftrec", content), write(earlier+"7Z.weftrec", content)}

		log := &logbook{}
		const limit, entry = 8000, 700
		w := begin(t, Config{Dir: dir, MaxBytes: limit, Logger: log.logger()}, nil)
		if _, err := os.Stat(mine[0]); err != nil {
			t.Errorf("before there is anything to record: %v", err)
		}
		var written int
		for i := range 60 {
			w.Record(answered(time.Now(), "game", float32(i)))
			synctest.Wait()
			if written = sumOf(t, w.out.limit); written > limit+len(content)+entry {
				t.Fatalf("after %d entries the recordings have %d bytes, want %d at most", i+1, written, limit)
			}
		}
		if written < limit/2 {
			t.Errorf("%d bytes are left; want at least half of %d", written, limit)
		}
		end(t, w)

		for _, name := range append(others, held) {
			if _, err := os.Lstat(name); err != nil {
				t.Errorf("what is no old recording was deleted: %v", err)
			}
		}
		for _, name := range mine {
			if _, err := os.Stat(name); !os.IsNotExist(err) {
				t.Errorf("the recording of an earlier run is still there: %s, %v", name, err)
			}
		}
		if err := holder.Close(); err != nil {
			t.Fatal(err)
		}
		lines := slices.DeleteFunc(log.lines(), func(line string) bool {
			return !strings.Contains(line, "event=recording_deleted")
		})
		if n := w.Stats().Deleted; int(n) != len(lines) || n < 3 {
			t.Errorf("%d files are counted as deleted, the log has %d lines of them:\n%s", n, len(lines),
				strings.Join(log.lines(), "\n"))
		}
		var left []string
		for _, name := range files(t, dir) {
			if strings.HasPrefix(filepath.Base(name), "2000") {
				left = append(left, name)
			}
		}
		entries, damage := readAll(t, open(t, left...))
		if len(entries) == 0 || damage != nil {
			t.Fatalf("%d entries are left, damage %q", len(entries), damage)
		}
		for i, e := range entries {
			if want := fmt.Sprint("game-", 60-len(entries)+i); e.Request.GetRequestId() != want {
				t.Errorf("entry %d of what is left is %s, want %s: the oldest go first", i, e.Request.GetRequestId(),
					want)
			}
		}
	})
}

// A file that one server is writing must not be deleted by another one that records into the same folder.
func TestAFileThatIsWrittenIsNotDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := begin(t, Config{}, nil)
		slow.Record(answered(time.Now(), "slow", 1))
		synctest.Wait()
		written := files(t, slow.config.Dir)[0]
		busy := begin(t, Config{Dir: slow.config.Dir, MaxBytes: 4000}, nil)
		record := func() {
			for i := range 20 {
				busy.Record(answered(time.Now(), "busy", float32(i)))
				synctest.Wait()
			}
		}
		record()
		if _, err := os.Stat(written); err != nil || busy.Stats().Deleted == 0 {
			t.Errorf("%v; %d files were deleted, want some others", err, busy.Stats().Deleted)
		}
		end(t, slow)
		record()
		if _, err := os.Stat(written); !os.IsNotExist(err) {
			t.Errorf("the file has been ended and is the oldest, and is still there: %v", err)
		}
	})
}

// sumOf is the size of all recordings, as the limit sees them.
func sumOf(t *testing.T, l *limit) int {
	t.Helper()
	_, sum, err := l.find()
	if err != nil {
		t.Fatal(err)
	}
	return int(sum)
}

func TestNothingIsDeletedWithoutALimit(t *testing.T) {
	dir := t.TempDir()
	content, _ := recorded(t)
	old := filepath.Join(dir, "19990102T150405.000000000Z.weftrec")
	if err := os.WriteFile(old, content, 0o600); err != nil {
		t.Fatal(err)
	}
	w := begin(t, Config{Dir: dir, MaxFileBytes: 1}, nil)
	for i := range 10 {
		w.Record(answered(time.Now(), "game", float32(i)))
	}
	end(t, w)
	if _, err := os.Stat(old); err != nil || w.Stats().Deleted != 0 {
		t.Errorf("%v, %+v", err, w.Stats())
	}
}

func TestALimitThatCannotBeKept(t *testing.T) {
	log := &logbook{}
	l := &limit{dir: filepath.Join(t.TempDir(), "gone"), bytes: 1, log: log.logger()}
	l.keep()
	l.keep()
	if lines := log.lines(); len(lines) != 1 || !strings.Contains(lines[0], "event=recording_delete_failed") ||
		!strings.Contains(lines[0], "no such file") {
		t.Errorf("log %q, want one line for several failures", lines)
	}
	if err := os.Mkdir(l.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	l.keep()
	if err := os.Remove(l.dir); err != nil {
		t.Fatal(err)
	}
	l.keep()
	if lines := log.lines(); len(lines) != 2 {
		t.Errorf("log %q, want another line after it has worked", lines)
	}
}

func TestAFileThatGoesBeforeItIsRead(t *testing.T) {
	dir := t.TempDir()
	data, _ := recorded(t)
	for _, name := range []string{"1.weftrec", "2.weftrec"} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := open(t, dir)
	if err := os.Remove(filepath.Join(dir, "1.weftrec")); err != nil {
		t.Fatal(err)
	}
	entries, damage := readAll(t, r)
	if len(entries) != 3 || len(damage) != 1 || !strings.HasPrefix(damage[0], "1.weftrec: ") ||
		!strings.Contains(damage[0], "deleted since the files were listed") {
		t.Errorf("%d entries, damage %q; want those of the other file, and to be told", len(entries), damage)
	}
}

// TestAFullDiskThatOldRecordingsFill: files beyond the limit are deleted although no file can be begun.
func TestAFullDiskThatOldRecordingsFill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		content, _ := recorded(t)
		old := filepath.Join(dir, "19990102T150405.000000000Z.weftrec")
		if err := os.WriteFile(old, content, 0o600); err != nil {
			t.Fatal(err)
		}
		disk := &smallDisk{} // not even room for a header
		w := begin(t, Config{Dir: dir, MaxBytes: int64(len(content))}, disk.create)
		w.Record(answered(time.Now(), "game", 1))
		synctest.Wait()
		if _, err := os.Stat(old); !os.IsNotExist(err) || w.Stats().Deleted != 1 {
			t.Fatalf("the old recording is still there: %v, %+v", err, w.Stats())
		}
		disk.grow(1 << 20)
		time.Sleep(minPause)
		w.Record(answered(time.Now(), "game", 2))
		synctest.Wait()
		if got := w.Stats().Written; got != 1 {
			t.Errorf("%d entries are written once there is room, want 1", got)
		}
	})
}

// TestDeletingHoldsNothingUp: entries are written while the disk takes its time to delete, and the files that exceed
// the bound by then are deleted at once.
func TestDeletingHoldsNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		content, _ := recorded(t)
		old := filepath.Join(dir, "19990102T150405.000000000Z.weftrec")
		if err := os.WriteFile(old, content, 0o600); err != nil {
			t.Fatal(err)
		}
		slow := &slowLog{let: make(chan struct{})}
		const limit = 4000
		w := begin(t, Config{Dir: dir, MaxBytes: limit, Logger: slog.New(slow)}, nil)
		for i := range 20 {
			w.Record(answered(time.Now(), "game", float32(i)))
			synctest.Wait()
		}
		if s := w.Stats(); s.Written != 20 || s.Deleted != 1 {
			t.Errorf("%+v; want all 20 written while the first file is being deleted", s)
		}
		close(slow.let)
		synctest.Wait()
		if sum := sumOf(t, w.out.limit); sum > limit {
			t.Errorf("the recordings have %d bytes after that, want %d at most", sum, limit)
		}
	})
}

// slowLog makes deleting slow: the goroutine that logs it waits.
type slowLog struct {
	slog.Handler
	let chan struct{}
}

func (l *slowLog) Enabled(context.Context, slog.Level) bool { return true }

func (l *slowLog) Handle(context.Context, slog.Record) error {
	<-l.let
	return nil
}
