package access

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/peer"
)

// deniedPause is the shortest time between two log lines about what was denied to an identity, or to all callers who
// are none: a caller must not fill the log, nor keep the lines of others out of it.
const deniedPause = time.Second

// denied decides which of the denied calls get a line in the log.
type denied struct {
	mu sync.Mutex
	of map[string]*turns // guarded by mu; by identity, "" for callers who are none
}

// turns is when an identity may have another line, and how many were left out since the last.
type turns struct {
	next   time.Time
	passed int
}

// turn reports whether there may be another line now for an identity, and how many were left out since its last. Names
// are those of the access file, so that there are few.
func (d *denied) turn(name string, now time.Time) (passed int, may bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.of[name]
	if t == nil {
		if d.of == nil {
			d.of = map[string]*turns{}
		}
		t = &turns{}
		d.of[name] = t
	}
	if now.Before(t.next) {
		t.passed++
		return 0, false
	}
	passed = t.passed
	t.next, t.passed = now.Add(deniedPause), 0
	return passed, true
}

// Deny notes that a request was refused or denied: it is counted, and gets a line in the log unless a quota was its
// reason, or the identity had a line in the last second. c is nil where the caller is not known.
func (d *Control) Deny(ctx context.Context, c *Caller, method, model string, err error) {
	reason := reasonOf(err)
	if reason == "" {
		return // the caller went away
	}
	name, how := "", ""
	if c != nil {
		name, how = c.Name, c.How
	}
	if d.Observer != nil {
		d.Observer.RequestDenied(name, reason)
	}
	if _, quota := errors.AsType[*QuotaError](err); quota {
		return // the metric says enough
	}
	passed, may := d.denied.turn(name, time.Now())
	if !may {
		return
	}
	cause := err.Error()
	if e, is := errors.AsType[*UnreachableError](err); is {
		cause = e.Cause.Error()
	}
	who := "unknown"
	if p, known := peer.FromContext(ctx); known {
		who = p.Addr.String()
	}
	log := cmp.Or(d.Logger, slog.Default())
	log.WarnContext(ctx, "call denied", "event", "access_denied",
		"who", who, "identity", name, "proof", how, "method", method, "model", clip(model), "reason", reason,
		"cause", clip(cause), "others_since", passed)
}

// longestText is how much of a text that comes with a call the log gets, in bytes.
const longestText = 512

// clip cuts a text that may be as long as its caller likes.
func clip(text string) string {
	if len(text) <= longestText {
		return text
	}
	return strings.ToValidUTF8(text[:longestText], "") + "..."
}

// reasonOf returns the reason of an error, for metrics; "" of one that is none of access control's.
func reasonOf(err error) string {
	if e, is := errors.AsType[*ProofError](err); is {
		return string(e.Reason)
	}
	if e, is := errors.AsType[*QuotaError](err); is {
		return "QUOTA_" + strings.ToUpper(strings.ReplaceAll(e.Quota, "-", "_"))
	}
	for reason, is := range map[string]bool{
		"PERMISSION_DENIED":  isOf[*DeniedError](err),
		"MODEL_HIDDEN":       isOf[*HiddenError](err),
		"PRIORITY_DENIED":    isOf[*PriorityError](err),
		"ISSUER_UNREACHABLE": isOf[*UnreachableError](err),
	} {
		if is {
			return reason
		}
	}
	return ""
}

// isOf reports whether an error is an E, or wraps one.
func isOf[E error](err error) bool {
	_, is := errors.AsType[E](err)
	return is
}
