package protect

import (
	"errors"
	"testing"
	"time"
)

var (
	errFull = errors.New("the queue is full")
	one     = Kind{Model: "one"}
	yes     = func() bool { return true }
	silent  = func(error) error { return errFull }
)

// caller brings requests to a history on a clock of its own.
type caller struct {
	history
	now time.Time
}

// send brings requests at a rate for some time. The server has the capacity to answer some of each second. It returns
// how many were let in, answered, and how many times a status was written.
func (c *caller) send(rate, capacity int, within float64, during time.Duration) (in, answered, said int) {
	say := func(error) error { said++; return errFull }
	room := 0.
	for range int(during.Seconds() * float64(rate)) {
		c.now = c.now.Add(time.Second / time.Duration(rate))
		room = min(room+float64(capacity)/float64(rate), max(1, float64(capacity)/20)) // 50 ms of queue
		if c.refuse(c.now, within, yes, say) != nil {
			continue
		}
		in++
		if room >= 1 {
			room--
			answered++
			c.ended(c.now, within, nil)
		} else {
			c.ended(c.now, within, errFull)
		}
	}
	return in, answered, said
}

// TestLittleMoreComesInThanIsAnswered once more comes than there is capacity for, and no answer is lost
// by it.
func TestLittleMoreComesInThanIsAnswered(t *testing.T) {
	for capacity, least := range map[int]float64{20: 0.6, 400: 0.97, 2000: 0.97} { // a queue of one loses some
		for _, overload := range []int{2, 5, 10} {
			c := &caller{now: time.Now()}
			c.send(overload*capacity, capacity, endless, 2*time.Second)
			in, answered, said := c.send(overload*capacity, capacity, endless, 5*time.Second)
			most := 1.6*float64(5*capacity) + 1.1*5*few/memory.Seconds()
			if float64(answered) < least*float64(5*capacity) || float64(in) > most {
				t.Errorf("%d times %d a second: %d were let in, at most %.0f should be; %d were answered", overload,
					capacity, in, most, answered)
			}
			if said > 5*int(time.Second/memory+1) {
				t.Errorf("%d times %d a second: the status was written %d times", overload, capacity, said)
			}
		}
	}
}

// TestNothingIsRefusedThatMayBeAnswered: of what there is capacity for, of a burst, of calls that have more time than
// the late ones had, and where no processor is scarce.
func TestNothingIsRefusedThatMayBeAnswered(t *testing.T) {
	c := &caller{now: time.Now()}
	if in, answered, _ := c.send(1000, 1000, endless, time.Second); in != 1000 || answered < 999 {
		t.Errorf("within capacity %d of 1000 were let in", in)
	}
	c = &caller{now: time.Now()}
	for range 1000 {
		if c.refuse(c.now, endless, yes, silent) != nil {
			t.Fatal("a call of a burst was refused before any of it ended")
		}
	}
	c = &caller{now: time.Now()}
	c.send(1000, 100, 0.05, 2*time.Second)
	if in, _, _ := c.send(1000, 100, 0.05, time.Second); in > 300 {
		t.Fatalf("%d of 1000 were let in, which proves nothing", in)
	}
	for range 100 {
		if c.refuse(c.now, 1, yes, silent) != nil {
			t.Fatal("a call with a second to live was refused because others have 50 ms")
		}
		if c.refuse(c.now, 0.05, func() bool { return false }, silent) != nil {
			t.Fatal("a call was refused although no processor is scarce")
		}
	}
}

// TestAKindRecovers within a second, when all that it brings can be answered again.
func TestAKindRecovers(t *testing.T) {
	for _, before := range []int{0, 10, 1000} {
		c := &caller{now: time.Now()}
		c.send(2000, before, endless, 10*time.Second)
		c.send(2000, 2000, endless, time.Second)
		if in, _, _ := c.send(2000, 2000, endless, time.Second); in != 2000 {
			t.Errorf("a second after %d of 2000 were answered, %d of 2000 are let in", before, in)
		}
	}
}
