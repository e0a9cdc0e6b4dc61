package fleet

import (
	"fmt"
	"maps"
	"os"
	"strings"
)

// metric is what is known of a series: its type and labels.
type metric struct {
	kind   string // counter, gauge, histogram, or bucket of one
	labels []string
}

// target are the labels that Prometheus gives to all series of a replica, and what gives them to it.
var target = []string{"cluster", "instance", "job"}

// elsewhere are the series that are not of Weft.
var elsewhere = map[string]metric{
	"up":                            {"gauge", nil},
	"process_resident_memory_bytes": {"gauge", nil},
	"process_cpu_seconds_total":     {"counter", nil},
}

// readMetrics returns the series of a list such as that of internal/telemetry, whose lines are like
//
//	weft_queue_depth gauge {model, slot, version}
//
// and those from elsewhere, by their names in expressions.
func readMetrics(file string) (map[string]metric, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	all := maps.Clone(elsewhere)
	for line := range strings.Lines(string(text)) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		kind, list, found := strings.Cut(rest, " {")
		if !found || !strings.HasSuffix(list, "}") {
			return nil, fmt.Errorf("%s: %q is not NAME TYPE {LABELS}", file, line)
		}
		labels := strings.FieldsFunc(strings.TrimSuffix(list, "}"), func(r rune) bool { return r == ',' || r == ' ' })
		if kind == "histogram" {
			all[name+"_bucket"] = metric{"histogram", append([]string{"le"}, labels...)}
			all[name+"_sum"], all[name+"_count"] = metric{"counter", labels}, metric{"counter", labels}
			continue
		}
		all[name] = metric{kind, labels}
	}
	return all, nil
}
