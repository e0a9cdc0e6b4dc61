package sharedsched

import (
	"testing"
	"time"
)

// TestOnlyRestIsSaved: while a batch of seconds runs nobody is picked, and so no flow looked at. One that rested then
// has saved half of its part, one that went on asking for more than that has not.
func TestOnlyRestIsSaved(t *testing.T) {
	const part, batch = 0.5, 3 * time.Second
	at := Time(time.Minute)
	now := at.Add(batch)
	for name, c := range map[string]struct {
		use  float64
		seen Time // its latest task
		want float64
	}{
		"rests":  {use: 0, seen: at, want: part / savedPart * batch.Seconds()},
		"floods": {use: 2, seen: now.Add(-time.Millisecond), want: 0},
	} {
		f := flow{looked: at, recent: recent{fading: fading{seen: c.seen}}}
		f.save(now, part, c.use)
		if f.saved != c.want {
			t.Errorf("%s: saved %v s, want %v", name, f.saved, c.want)
		}
	}
}
