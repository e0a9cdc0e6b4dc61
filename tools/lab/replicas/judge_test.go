package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

// TestPromises holds a policy against round robin of the same round, and takes the median of the rounds.
func TestPromises(t *testing.T) {
	const weighted, rows = "weighted round robin", 2
	slow, equal := &cells[0], &cells[2]
	for name, tt := range map[string]struct {
		cell      *cell
		base, got []sample
		want      [rows]bool // in time, p99
	}{
		"kept":      {slow, []sample{{inTime: 0.75, p99: 7}}, []sample{{inTime: 0.995, p99: 0.8}}, [rows]bool{true, true}},
		"few":       {slow, []sample{{inTime: 0.75, p99: 7}}, []sample{{inTime: 0.985, p99: 0.8}}, [rows]bool{false, true}},
		"late":      {slow, []sample{{inTime: 0.75, p99: 2}}, []sample{{inTime: 0.995, p99: 0.8}}, [rows]bool{true, false}},
		"no better": {equal, []sample{{inTime: 1, p99: 0.5}}, []sample{{inTime: 0.99, p99: 0.5}}, [rows]bool{false, true}},
		"no faster": {equal, []sample{{inTime: 1, p99: 0.5}}, []sample{{inTime: 1, p99: 0.6}}, [rows]bool{true, false}},
		"a bad round of three": {
			slow,
			[]sample{{inTime: 0.75, p99: 7}, {inTime: 0.75, p99: 7}, {inTime: 0.75, p99: 7}},
			[]sample{{inTime: 0.9, p99: 6}, {inTime: 0.995, p99: 1}, {inTime: 1, p99: 1}},
			[rows]bool{true, true},
		},
		"nobody was answered": {slow, []sample{{}}, []sample{{}}, [rows]bool{false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBook()
			b.balanced[[2]string{tt.cell.name, roundRobin}] = tt.base
			b.balanced[[2]string{tt.cell.name, weighted}] = tt.got
			all := b.promises(tt.cell)
			if len(all) != rows || all[0].met() != tt.want[0] || all[1].met() != tt.want[1] {
				t.Errorf("%+v, want %v", all, tt.want)
			}
		})
	}
}

// TestNone is not a matter of medians.
func TestNone(t *testing.T) {
	b := newBook()
	b.none("x", 0)
	if !allMet(b.judged) {
		t.Error("nothing happened, and that is not met")
	}
	b.none("y", 1)
	if allMet(b.judged) {
		t.Error("one that failed is met")
	}
}

// TestCount leaves out what was sent while weights settled. What failed is not in time.
func TestCount(t *testing.T) {
	at := time.Now()
	l := ledger{calls: []call{
		{due: at.Add(-time.Second), took: time.Hour},
		{due: at, took: limit},
		{due: at.Add(time.Second), took: 2 * limit},
		{due: at.Add(time.Second), took: limit / 2, err: errors.New("refused")},
		{due: at.Add(time.Second), took: limit / 2, lag: limit / 2},
		{due: at.Add(time.Minute), took: time.Hour},
	}}
	var s sample
	s.count(&l, limit, at, at.Add(2*time.Second))
	if want := (sample{calls: 4, inTime: 0.5, p50: 1, p99: 2, lag: 0.5, failed: 1}); s != want {
		t.Errorf("%+v, want %+v", s, want)
	}
}

// TestRewire keeps all of a file but its addresses.
func TestRewire(t *testing.T) {
	const file = `
admin: {address: {socket_address: {address: 127.0.0.1, port_value: 9901}}}
static_resources:
  listeners: [{name: weft, address: {socket_address: {address: 0.0.0.0, port_value: 9000}}}]
  clusters:
  - {name: weft, type: STRICT_DNS, connect_timeout: 1s, load_assignment: {}, load_balancing_policy: {policies: []}}
`
	text, err := rewire([]byte(file), "/e.json", "", 7)
	if err != nil || !json.Valid(text) {
		t.Fatalf("%s, %v", text, err)
	}
	for part, want := range map[string]bool{
		`"port_value":7`: true, "9000": false, "9901": false, "load_assignment": false, `"type":"EDS"`: true, "/e.json": true,
		`"connect_timeout":"1s"`: true, `"policies":[]`: true,
	} {
		if strings.Contains(string(text), part) != want {
			t.Errorf("%s: %q is there: %v", text, part, !want)
		}
	}
	text, err = rewire([]byte(file), "", envoyRoundRobin, 7)
	if err != nil || !strings.Contains(string(text), "RoundRobin") {
		t.Errorf("with another policy: %s, %v", text, err)
	}
	if _, err := rewire([]byte("static_resources: {}"), "", "", 7); err == nil {
		t.Error("a file without a listener is taken")
	}
	const lines = "global\n\nfrontend weft\n    bind :9000 proto h2\n    server-template weft 16 x:9000\n"
	const want = "global\n    stats socket /s mode 600 level admin\n\nfrontend weft\n    bind 127.0.0.1:7 proto h2\n" +
		"    server-template weft 16 127.0.0.1:1 disabled\n"
	if got := string(rewireHAProxy([]byte(lines), "/s", 7)); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
