package main

import (
	"strconv"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/codes"
)

// tally is what an attacker did, and what it saw.
type tally struct {
	done    atomic.Int64
	Done    int64          // operations
	Seconds float64        // for so long
	Dialed  int64          // connections
	Open    int64          // at the end
	Failed  int64          // connections that did not come about
	Ended   int64          // by the server
	GoAways map[string]int // by code and debug text
	Resets  map[string]int // by code
	Ends    map[string]int // of connections, by how they ended
	// Statuses are gRPC's, by name.
	Statuses map[string]int

	mu sync.Mutex // guards the maps and the numbers of connections
}

func (t *tally) note(counts *map[string]int, what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if *counts == nil {
		*counts = map[string]int{}
	}
	(*counts)[what]++
}

func (t *tally) count(n *int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*n++
}

func statusName(number string) string {
	n, err := strconv.Atoi(number)
	if err != nil {
		return number
	}
	return codes.Code(n).String()
}
