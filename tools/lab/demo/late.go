package main

import (
	"context"
	"strings"
	"time"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// How a late request is looked for after a key that leads to some: first after a while, then again for as long.
const (
	lateAfter  = 3 * time.Second
	lateWithin = 15 * time.Second
	lateAgain  = time.Second
)

// tellLate names a late request of a robot once there is one, so that there is something to explain.
func (d *stage) tellLate(ctx context.Context) {
	now := time.Now()
	if d.lateFrom.IsZero() || now.Before(d.lateFrom) {
		return
	}
	if d.lateFrom = now.Add(lateAgain); now.After(d.lateUntil) {
		d.lateFrom = time.Time{}
		return
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	answer, err := d.models().ListRequests(ctx, &weftv1.ListRequestsRequest{
		Model: policy, End: weftv1.RequestEnd_REQUEST_END_LATE,
	})
	if err != nil { // asked again in a moment
		return
	}
	for _, id := range answer.GetRequests().GetId() {
		if strings.HasPrefix(id, "cart-") {
			d.say("    %s was late: `%s explain%s %s` says because of whom.", id, d.server.weft, d.flags(), id)
			d.lateFrom = time.Time{}
			return
		}
	}
}
