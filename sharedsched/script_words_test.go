package sharedsched

import (
	"strconv"
	"strings"
	"time"
)

// args splits a command into its words and its key=value pairs.
func args(line string) (words []string, kv map[string]string) {
	kv = map[string]string{}
	for f := range strings.FieldsSeq(line) {
		if k, v, ok := strings.Cut(f, "="); ok {
			kv[k] = v
		} else {
			words = append(words, f)
		}
	}
	return words, kv
}

func (s *script) duration(v string) time.Duration {
	d, err := time.ParseDuration(v)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

func (s *script) int(v string) int {
	n, err := strconv.Atoi(v)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

var priorities = map[string]Priority{
	"": Critical, "critical_plus": CriticalPlus, "sheddable": Sheddable, "sheddable_plus": SheddablePlus,
}

// named looks a word up among those it may be.
func named[T any](s *script, of map[string]T, word string) T {
	v, ok := of[word]
	if !ok {
		s.t.Fatalf("unknown word %q", word)
	}
	return v
}

func (s *script) settings(old Settings, kv map[string]string) Settings {
	for k, v := range kv {
		switch k {
		case "batched":
			old.Batched = v == "yes"
		case "size":
			old.MaxBatchSize = s.int(v)
		case "cost":
			old.MaxBatchCost = s.duration(v)
		case "timeout":
			old.BatchTimeout = s.duration(v)
		case "queue":
			old.MaxQueue = s.int(v)
		case "rows":
			old.MaxRequestRows = s.int(v)
		case "target":
			old.TargetLatency = s.duration(v)
		case "latency":
			old.MaxLatency = s.duration(v)
		case "row_memory":
			old.RowMemory = int64(s.int(v)) << 20
		case "allowed":
			old.AllowedBatchSizes = nil
			for n := range strings.SplitSeq(v, ",") {
				old.AllowedBatchSizes = append(old.AllowedBatchSizes, s.int(n))
			}
		case "flow", "weight", "device":
		default:
			s.t.Fatalf("unknown setting %q", k)
		}
	}
	return old
}
