package record

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// recorded returns the bytes of a file with three entries, and where each of them begins.
func recorded(t *testing.T) (data []byte, begins []int) {
	t.Helper()
	at := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	data, err := appendHeader(preamble(), &Header{Started: at, Created: at, Inputs: InputsFull, Sample: 1})
	for i := range 3 {
		begins = append(begins, len(data))
		e := answered(at, "game", float32(i))
		if err == nil {
			data, err = appendEntry(data, &e)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return data, begins
}

func TestDamage(t *testing.T) {
	data, begins := recorded(t)
	flip := func(at int) func([]byte) []byte {
		return func(b []byte) []byte { b[at] ^= 4; return b }
	}
	cutTo := func(n int) func([]byte) []byte { return func(b []byte) []byte { return b[:n] } }
	tests := []struct {
		name    string
		change  func([]byte) []byte
		entries int // of the damaged file
		offset  int
		want    string // "" for no damage
	}{
		{"whole", cutTo(len(data)), 3, 0, ""},
		{"cut between entries", cutTo(begins[2]), 2, 0, ""},
		{"cut within an entry", cutTo(len(data) - 1), 2, begins[2], "within an entry"},
		{"cut within a frame's head", cutTo(begins[1] + 5), 1, begins[1], "within an entry"},
		{"cut within the header", cutTo(begins[0] - 1), 0, preambleBytes, "within an entry"},
		{"cut before the header", cutTo(preambleBytes), 0, preambleBytes, "within an entry"},
		{"cut within the preamble", cutTo(9), 0, 0, "within an entry"},
		{"empty", cutTo(0), 0, 0, "no recording of Weft"},
		{
			"zeros behind the last entry", func(b []byte) []byte { return append(b, make([]byte, 100)...) }, 3, len(data),
			"checksum",
		},
		{"a bit of an entry", flip(begins[1] + 50), 1, begins[1], "checksum"},
		{"a bit of a length", flip(begins[1]), 1, begins[1], "checksum"},
		{"a high bit of a length", flip(begins[1] + 3), 1, begins[1], "within an entry"},
		{"a bit of a checksum", flip(begins[0] + 6), 0, begins[0], "checksum"},
		{"a bit of the header", flip(preambleBytes + 20), 0, preambleBytes, "checksum"},
		{"another file", func([]byte) []byte { return []byte("synth: {base: 1ms}") }, 0, 0, "no recording of Weft"},
		{"a later format", flip(len(magic)), 0, 0, "version 5; expected 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(name string, b []byte) {
				if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write("1.weftrec", tt.change(append([]byte(nil), data...)))
			write("2.weftrec", data)
			entries, damage := readAll(t, open(t, dir))
			if len(entries) != tt.entries+3 {
				t.Errorf("%d entries, want %d and 3 of the next file", len(entries), tt.entries)
			}
			switch {
			case tt.want == "" && damage != nil:
				t.Errorf("damage %q, want none", damage)
			case tt.want == "":
			case len(damage) != 1 ||
				!strings.HasPrefix(damage[0], fmt.Sprintf("1.weftrec: left out from byte %d on: ", tt.offset)) ||
				!strings.Contains(damage[0], tt.want):
				t.Errorf("damage %q, want one from byte %d on: %s", damage, tt.offset, tt.want)
			}
		})
	}
}

func TestOpen(t *testing.T) {
	data, _ := recorded(t)
	a, b, empty := t.TempDir(), t.TempDir(), t.TempDir()
	for _, name := range []string{
		filepath.Join(a, "3.weftrec"), filepath.Join(a, "1.weftrec"),
		filepath.Join(b, "2.weftrec"), filepath.Join(b, "notes.txt"),
	} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	for _, name := range open(t, a, b).Files() {
		names = append(names, filepath.Base(name))
	}
	if got := strings.Join(names, " "); got != "1.weftrec 2.weftrec 3.weftrec" {
		t.Errorf("files %s; want them in the order of their names", got)
	}
	for path, want := range map[string]string{
		empty:                         "no file in it ends in .weftrec; name a directory that `weft serve --record` wrote to",
		filepath.Join(a, "4.weftrec"): "no such file",
	} {
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Open(%s): %v; want %q", path, err, want)
		}
	}
}

func FuzzReader(f *testing.F) {
	at := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	e := answered(at, "game", 1)
	data, _ := appendHeader(preamble(), &Header{Started: at})
	data, _ = appendEntry(data, &e)
	f.Add(data)
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, payload []byte) {
		// Behind a checksum that fits, where most errors would hide.
		file, err := appendHeader(preamble(), &Header{Started: at})
		if err != nil {
			t.Fatal(err)
		}
		start := len(file)
		file = append(beginFrame(file), payload...)
		if err := endFrame(file[start:]); err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, "x.weftrec")
		if err := os.WriteFile(name, file, 0o600); err != nil {
			t.Fatal(err)
		}
		entries, damage := readAll(t, open(t, name))
		if len(entries)+len(damage) != 1 {
			t.Errorf("%d entries, damage %q; want one or the other", len(entries), damage)
		}
	})
}

// TestProgress counts the bytes of all files, damaged ones whole, and begins at 0 with each reading.
func TestProgress(t *testing.T) {
	data, begins := recorded(t)
	dir := t.TempDir()
	for i, content := range [][]byte{data, data[:len(data)-1], data} {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i, suffix)), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := open(t, dir)
	total, whole := int64(3*len(data)-1), int64(len(data))
	if read, all := r.Progress(); read != 0 || all != total {
		t.Errorf("%d of %d bytes before the start, want 0 of %d", read, all, total)
	}
	first, second := int64(begins[1]), int64(begins[2])
	for range 2 {
		var got []int64
		for range r.Entries() {
			read, _ := r.Progress()
			got = append(got, read)
		}
		want := []int64{
			first, second, whole, whole + first, whole + second, whole + second, // where the damage begins
			2*whole - 1 + first, 2*whole - 1 + second, 3*whole - 1,
		}
		if !slices.Equal(got, want) {
			t.Errorf("read %v, want %v", got, want)
		}
		if read, all := r.Progress(); read != total || all != total {
			t.Errorf("%d of %d bytes at the end", read, all)
		}
	}
}
