package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/proto/weftclient"
)

// stage is the demo while it plays. One goroutine acts.
type stage struct {
	server        *server
	client, admin *weftclient.Client
	crowd         *crowd
	out           io.Writer
	raw           bool // the terminal is, and needs a carriage return
	keys          chan byte
	burning       *burners
	leave         context.CancelFunc // has the crowd go

	began   time.Time
	rollout bool // one runs
	steps   int  // of it that were told

	lateFrom, lateUntil time.Time // when a late request is looked for; zero: it is not
}

func newStage(s *server, out io.Writer) (*stage, error) {
	client, err := weftclient.New(s.GRPC, weftclient.WithAttempts(1))
	if err != nil {
		return nil, err
	}
	admin, err := weftclient.New(s.Admin)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	began := time.Now()
	return &stage{
		server: s, client: client, admin: admin, out: out, keys: make(chan byte), began: began,
		crowd: &crowd{client: client, began: began.Format("150405")},
	}, nil
}

// fill has the crowd come.
func (d *stage) fill(ctx context.Context) {
	ctx, d.leave = context.WithCancel(ctx)
	d.crowd.start(ctx)
}

// close ends what was started beside the server.
func (d *stage) close() {
	d.leave()
	if d.burning != nil {
		_ = d.burning.stop() // they end with this program at the latest
	}
	d.crowd.done.Wait()
	_, _ = d.client.Close(), d.admin.Close() // nothing is open any more
}

// say prints lines. Without a user at the terminal to see it, it does no harm.
func (d *stage) say(format string, args ...any) {
	text := fmt.Sprintf(format, args...) + "\n"
	if d.raw {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	_, _ = io.WriteString(d.out, text)
}

// flags are those with which a command finds the server.
func (d *stage) flags() string {
	if d.server.usual {
		return ""
	}
	return " --address " + d.server.GRPC
}

const keyHelp = "Keys: c starts a canary, s slows the device, f floods, q quits."

// welcome says what runs, and what to try.
func (d *stage) welcome() string {
	return fmt.Sprintf(`
A server is at work: every %v, %d robots ask %s v%d for an action and %d ask %s v%d. %s v%d shadows
that one, and large batches of %s v%d come between. One device runs one batch at a time.

  See it:      http://%s/live/
  In a second terminal:
               %[13]s top%[14]s
               %[13]s explain%[14]s
  Call it:     %[13]s predict %[3]s%[14]s --input observation='[[0, 0.1, 0.05, -0.2]]'

Open the page, then press c: within a minute it says which version is better. Then f, for an overload, and f again.
%[15]s
`, period, carts, policy, baseline, hoppers, gait, walking, gait, limited, ranker, rankerVersion, d.server.HTTP,
		d.server.weft, d.flags(), keyHelp)
}

// play carries out keys until the user quits, the time is over (0: never), or the server ends.
func (d *stage) play(ctx context.Context, last time.Duration, presses []press) error {
	var end <-chan time.Time
	if last > 0 {
		end = time.After(last)
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		var key byte
		select {
		case key = <-d.keys:
		case <-tick.C:
			d.watchRollout(ctx)
			d.tellLate(ctx)
			if len(presses) == 0 || time.Since(d.began) < presses[0].after {
				continue
			}
			key, presses = presses[0].key, presses[1:]
		case <-end:
			d.end()
			return nil
		case <-d.server.Ended():
			return fmt.Errorf("the server ended: %s", d.server.Tail())
		case <-ctx.Done():
			d.end()
			return nil
		}
		const interrupt = 3 // Ctrl-C, of a terminal that leaves it to the program
		if key == 'q' || key == interrupt {
			d.end()
			return nil
		}
		if err := d.press(ctx, key); err != nil {
			d.say("%v", err)
		}
	}
}

func (d *stage) end() {
	d.say("Stopping. %d requests were answered, %d were not.", d.crowd.answered.Load(), d.crowd.refused.Load())
}

// press carries out a key, and says where to look.
func (d *stage) press(ctx context.Context, key byte) error {
	switch key {
	case 'c':
		return d.startRollout(ctx)
	case 's':
		if d.burning != nil {
			b := d.burning
			d.burning = nil
			d.say("[s] The device has its speed again: the red ends in a few seconds.")
			return b.stop()
		}
		b, err := startBurners(ctx)
		if err != nil {
			return err
		}
		d.burning = b
		d.lateFrom, d.lateUntil = time.Now().Add(lateAfter), time.Now().Add(lateWithin)
		d.say("[s] Other programs take processor time now, so that batches take longer: see red on the page.\n"+
			"    `%s explain%s` lists who was late; s ends it.", d.server.weft, d.flags())
	case 'f':
		if d.crowd.flood.Load() {
			d.crowd.flood.Store(false)
			d.say("[f] The flood is over: see how soon waiting and late fall to 0.")
			return nil
		}
		d.crowd.flood.Store(true)
		d.lateFrom, d.lateUntil = time.Now().Add(lateAfter), time.Now().Add(lateWithin)
		d.say("[f] Ten times the load comes now: what cannot be answered in time is refused. The page says whose,\n"+
			"    how many and why; so does the column \"lost\" of `%s top%s`. f ends it.", d.server.weft, d.flags())
	default:
		d.say("%s", keyHelp)
	}
	return nil
}

// models returns the service that shows decisions.
func (d *stage) models() weftv1.ModelServiceClient {
	return weftv1.NewModelServiceClient(d.client.Conn())
}
