package sim

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// traced notes the batches that a policy starts.
type traced struct {
	Policy
	requests []Request
	log      *[]string
}

func (p traced) Next(now Time, lane int) *Batch {
	b := p.Policy.Next(now, lane)
	if b != nil {
		var ids []string
		for _, r := range b.Requests {
			ids = append(ids, strconv.Itoa(p.id(r)))
		}
		size := ""
		if b.Size != b.Rows {
			size = fmt.Sprintf(" as %d", b.Size)
		}
		*p.log = append(*p.log, fmt.Sprintf("%s %c[%s]%s", ms(now), 'a'+b.Model, strings.Join(ids, " "), size))
	}
	return b
}

func (p traced) id(r *Request) int {
	for i := range p.requests {
		if &p.requests[i] == r {
			return i
		}
	}
	return -1
}

func ms(t Time) string { return strconv.FormatFloat(float64(t)/1e6, 'g', 4, 64) }

// play runs requests under a policy without noise and returns which batches were started when, in milliseconds, which
// requests were not on time, and the fates. Requests are words such as b7x3#1/40: model b, at 7 ms, 3 rows, key 1, due
// 40 ms later; only model and time must be.
func play(t *testing.T, models []Model, policy func(*Env) Policy, lanes int, script string) string {
	t.Helper()
	requests := scripted(t, models, script)
	var log []string
	_, err := Run(&Setup{Models: models, Lanes: lanes}, requests,
		func(e *Env) Policy { return traced{policy(e), requests, &log} })
	if err != nil {
		t.Fatal(err)
	}
	for i := range requests {
		if r := &requests[i]; r.Fate != OnTime {
			word := map[Fate]string{Late: "late", Refused: "refused", Dropped: "dropped"}[r.Fate]
			log = append(log, fmt.Sprintf("%s %d %s", ms(r.Finish), i, word))
		}
	}
	return strings.Join(log, ", ")
}

func scripted(t *testing.T, models []Model, script string) []Request {
	t.Helper()
	var requests []Request
	for word := range strings.FieldsSeq(script) {
		value := func(mark string, otherwise float64) float64 {
			_, rest, found := strings.Cut(word, mark)
			if !found {
				return otherwise
			}
			if end := strings.IndexAny(rest, "x#/"); end >= 0 {
				rest = rest[:end]
			}
			v, err := strconv.ParseFloat(rest, 64)
			if err != nil {
				t.Fatalf("request %q: %v", word, err)
			}
			return v
		}
		r := Request{Model: int(word[0] - 'a'), Rows: int(value("x", 1)), Key: int(value("#", 0))}
		r.Arrival = Time(milliseconds(value(word[:1], 0)))
		slo := float64(models[r.Model].SLO) / float64(time.Millisecond)
		r.Deadline = r.Arrival + Time(milliseconds(value("/", slo)))
		requests = append(requests, r)
	}
	return requests
}
