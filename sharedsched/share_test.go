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
		asks []Time
		want float64
	}{
		"rests":  {use: 0, asks: []Time{now}, want: part / savedPart * batch.Seconds()},
		"floods": {use: 2, asks: []Time{at.Add(time.Millisecond), now}, want: 0},
	} {
		w := newWaiting(t, Device{Name: "d", Lanes: 1}, Variant{})
		v := w.add(1, Settings{MaxBatchSize: 1}, fixed)
		f := w.c.version(v).flow
		f.looked = at
		for _, when := range c.asks {
			if _, _, err := w.c.Submit(when, v, &Task{Rows: 1}, Never, nil); err != nil {
				t.Fatal(err)
			}
		}
		f.save(now, part, c.use)
		if f.saved != c.want {
			t.Errorf("%s: saved %v s, want %v", name, f.saved, c.want)
		}
	}
}
