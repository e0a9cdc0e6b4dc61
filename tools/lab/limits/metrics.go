package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Counters of a server.
const (
	lateExecutions  = "weft_executions_late_total"
	endedExecutions = "weft_executions_ended_total"
)

// counters returns the sum over all series of each counter of a server.
func (s *server) counters(ctx context.Context) (map[string]float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.http+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	defer response.Body.Close()
	sums := map[string]float64{}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		series, number, _ := strings.Cut(lines.Text(), " ")
		name, _, _ := strings.Cut(series, "{")
		if value, err := strconv.ParseFloat(number, 64); err == nil {
			sums[name] += value
		}
	}
	return sums, lines.Err()
}

// latePart returns which part of the executions between two looks ended too late for all their requests, in percent.
func latePart(before, after map[string]float64) float64 {
	ended := after[endedExecutions] - before[endedExecutions]
	return 100 * (after[lateExecutions] - before[lateExecutions]) / max(1, ended)
}
