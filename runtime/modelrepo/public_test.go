package modelrepo_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/race"
	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// TestFaultsAreToldWithoutWhatStandsInTheFile puts, one after the other, words and numbers that nothing else has in the
// place of each value of each manifest of the tests: whatever is found wrong then, callers must not read them.
func TestFaultsAreToldWithoutWhatStandsInTheFile(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 15 seconds")
	}
	race.Skip(t, "one goroutine, and half a minute under the race detector")
	files, _ := filepath.Glob("testdata/*.yaml")
	faulty, _ := filepath.Glob("testdata/faults/*.yaml")
	value, restOfKey := regexp.MustCompile(`[\w.+-]+`), regexp.MustCompile(`^[^\n,{}\[\]#]*:`)
	told, untold := 0, 0
	for _, file := range append(files, faulty...) {
		bytes, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		source := string(bytes)
		var values [][]int
		for _, at := range value.FindAllStringIndex(source, -1) {
			if !restOfKey.MatchString(source[at[1]:]) { // keys are shown
				values = append(values, at)
			}
		}
		for i, at := range values {
			if i%3 != len(file)%3 && !weftest.Long() {
				continue // each value in the long form only
			}
			after := source[at[1]:] // the next one too, since the fault may be that they are equal
			if i+1 < len(values) {
				after = source[at[1]:values[i+1][0]] + "%s" + source[values[i+1][1]:]
			}
			for _, secret := range []string{
				"zqxj", `"zqxj`, "[zqxj]", "!zqxj", "-7919", "7919000",
				"79191919191919191919", "7919ms",
			} {
				_, err := modelrepo.ReadManifest("m/model.yaml", []byte(source[:at[0]]+secret+source[at[1]:]))
				_, both := modelrepo.ReadManifest("m/model.yaml",
					[]byte(source[:at[0]]+secret+strings.Replace(after, "%s", secret, 1)))
				one, _ := errors.AsType[config.Faults](err)
				two, _ := errors.AsType[config.Faults](both)
				faults := slices.Concat(one, two)
				public := faults.Public()
				if strings.Contains(public, "zqxj") || strings.Contains(public, "7919") ||
					strings.Contains(public, "\n") {
					t.Fatalf("%s: instead of %s: callers read\n%s\nof\n%v", file, source[at[0]:at[1]], public, err)
				}
				for _, f := range faults {
					if f.Line == 0 {
						continue
					}
					if told++; f.Public() == f.String() {
						untold++
					}
				}
			}
		}
	}
	if told < 5000 || untold > 0 {
		t.Errorf("%d faults are told, %d of them as the log has them", told, untold)
	}
}

func TestPublicFault(t *testing.T) {
	for source, want := range map[string]string{
		"max_latency: eternal":     `m/model.yaml:1:1: max_latency: expected a duration with its unit, such as "500us", "5ms", "1s" or "2m"`,
		"weight: 5000":             "m/model.yaml:1:1: weight: expected 0.001 to 1000",
		"batching: {mode: always}": "m/model.yaml:1:12: batching.mode: expected one of auto, on, off",
		"wieght: 2":                `m/model.yaml:1:1: wieght: unknown key; did you mean "weight"?`,
		"batching: {max_rows: 3}": "m/model.yaml:1:12: batching.max_rows: unknown key; valid keys here: mode, max_batch_size, " +
			"max_batch_cost, batch_timeout, max_queue, on_full, max_request_rows, allowed_batch_sizes, audit, batch_dim, " +
			"unbatched, tolerance, variable_dims",
		"weight: {": "m/model.yaml:1:9: not valid YAML near here",
		"a: &b 1": "m/model.yaml:1:4: anchors (&name) are not supported: write the value out where " +
			"it is used",
		"weight: 0\nreplicas: no": "m/model.yaml:1:1: weight: expected 0.001 to 1000; m/model.yaml:2:1: replicas: " +
			"expected a number from 1 to 64, or auto",
	} {
		_, err := modelrepo.ReadManifest("m/model.yaml", []byte(source))
		faults, _ := errors.AsType[config.Faults](err)
		if got := faults.Public(); got != want {
			t.Errorf("%s\n got %s\nwant %s", source, got, want)
		}
	}
}
