package record

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &logbook{}
		disk := &smallDisk{room: 2000}
		w := begin(t, Config{Logger: log.logger()}, disk.create)
		serial := 0
		record := func() {
			w.Record(answered(time.Now(), fmt.Sprint("e", serial), float32(serial)))
			serial++
			synctest.Wait()
		}
		for w.Stats().Lost == 0 && serial < 20 {
			record()
		}
		kept := w.Stats().Written
		if kept < 2 || len(files(t, w.config.Dir)) != 1 {
			t.Fatalf("%+v, files %v; want some entries in a file before the disk is full", w.Stats(),
				files(t, w.config.Dir))
		}
		// An entry each 100 ms for ten minutes: the disk is tried after 1, 2, 4, ... and each 60 s, and nothing is left
		// behind.
		for range 6000 {
			time.Sleep(100 * time.Millisecond)
			record()
		}
		if tries := disk.created - 1; tries < 12 || tries > 16 {
			t.Errorf("%d new files tried within 10 minutes, want about 6 and then one each minute", tries)
		}
		if got := files(t, w.config.Dir); len(got) != 1 {
			t.Errorf("files %v, want the first one only", got)
		}
		disk.grow(1 << 20)
		lost := w.Stats().Lost
		for range 700 {
			time.Sleep(100 * time.Millisecond)
			record()
		}
		s := w.Stats()
		if s.Lost == lost || s.Lost-lost > 600 || s.Written-kept < 100 || s.Written+s.Lost != int64(serial) {
			t.Errorf("%+v after %d were lost; want at most a minute's more lost, the others written, %d in all", s,
				lost, serial)
		}
		end(t, w)

		r := open(t, w.config.Dir)
		entries, damage := readAll(t, r)
		if int64(len(entries)) != s.Written || damage != nil {
			t.Errorf("%d entries, damage %q; want %d and none: what was cut off is gone", len(entries), damage,
				s.Written)
		}
		if r.Missed() != s.Lost {
			t.Errorf("the recording tells of %d missed entries, want %d", r.Missed(), s.Lost)
		}
		last := files(t, w.config.Dir)
		part := open(t, last[len(last)-1])
		readAll(t, part)
		if part.Missed() != 0 {
			t.Errorf("the last file tells of %d missed entries, which were missed before it was begun", part.Missed())
		}
		if part.MissedBefore() != s.Lost || r.MissedBefore() != 0 {
			t.Errorf("%d entries were missed before the last file, %d before the first; want %d and none",
				part.MissedBefore(), r.MissedBefore(), s.Lost)
		}
		lines := log.lines()
		if len(lines) != 2 {
			t.Fatalf("log:\n%s\nwant a line for the failure and one for its end", strings.Join(lines, "\n"))
		}
		for i, want := range []string{
			`level=ERROR .* event=record_failed file=\S+\.weftrec cause=".*: no space left on device" .* missed=0 again_in=1s`,
			fmt.Sprintf(`level=INFO .* event=record_resumed file=\S+\.weftrec missed=%d$`, s.Lost),
		} {
			if !regexp.MustCompile(want).MatchString(lines[i]) {
				t.Errorf("log line\n%s\nwant\n%s", lines[i], want)
			}
		}
	})
}

// A disk that works for moments only must not fill the log.
func TestADiskThatFlaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &logbook{}
		disk := &smallDisk{}
		w := begin(t, Config{Logger: log.logger()}, disk.create)
		for range 6000 { // 10 minutes
			time.Sleep(100 * time.Millisecond)
			disk.mu.Lock()
			disk.room = 600 // a header and an entry
			disk.mu.Unlock()
			for number := range 2 {
				w.Record(answered(time.Now(), "game", float32(number)))
				synctest.Wait()
			}
		}
		end(t, w)
		if s := w.Stats(); s.Written == 0 || s.Lost == 0 || s.Written+s.Lost != 12000 {
			t.Errorf("%+v, want some of 12000 written, some lost", s)
		}
		if n := len(log.lines()); n > 60 {
			t.Errorf("%d lines are logged in 10 minutes", n)
		}
	})
}

func TestAFileThatCannotBeMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &logbook{}
		w := begin(t, Config{Logger: log.logger()},
			func(string) (file, error) { return nil, errors.New("the disk is gone") })
		for range 3 {
			w.Record(answered(time.Now(), "game", 1))
			synctest.Wait()
		}
		if s := w.Stats(); s.Lost != 3 {
			t.Errorf("%+v, want 3 lost", s)
		}
		if lines := log.lines(); len(lines) != 1 || !strings.Contains(lines[0], "event=record_failed") ||
			!strings.Contains(lines[0], `.weftrec cause="the disk is gone"`) {
			t.Errorf("log %q", lines)
		}
	})
}

type unsafeFile struct{ file }

func (f unsafeFile) End(size int64) error {
	return errors.Join(f.file.End(size), errors.New("input/output error"))
}

func TestAFileThatCannotBeMadeSafe(t *testing.T) {
	log := &logbook{}
	w := begin(t, Config{Logger: log.logger()}, func(name string) (file, error) {
		f, err := createFile(name)
		return unsafeFile{f}, err
	})
	w.Record(answered(time.Now(), "game", 1))
	end(t, w)
	if lines := log.lines(); len(lines) != 1 || !strings.Contains(lines[0], "event=recording_sync_failed") ||
		!strings.Contains(lines[0], `cause="input/output error"`) {
		t.Errorf("log %q", lines)
	}
}
