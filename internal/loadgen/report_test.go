package loadgen

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestDocumentedSchema wants docs/operations/benchmarking.md to have every field of the JSON form.
func TestDocumentedSchema(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations/benchmarking.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[reflect.Type]bool{}
	var visit func(reflect.Type)
	visit = func(of reflect.Type) {
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct || of == reflect.TypeFor[time.Time]() || seen[of] {
			return
		}
		seen[of] = true
		for field := range of.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "" || !bytes.Contains(page, []byte("`"+name+"`")) {
				t.Errorf("%v.%s: docs/operations/benchmarking.md has no `%s`", of, field.Name, name)
			}
			visit(field.Type)
		}
	}
	visit(reflect.TypeFor[Report]())
}

// TestForms writes a report in all forms.
func TestForms(t *testing.T) {
	_, address := house(t)
	dir := t.TempDir()
	page, values := filepath.Join(dir, "report.html"), filepath.Join(dir, "report.json")
	var out bytes.Buffer
	o := optionsFor(address, func(o *Options) { o.HTML, o.JSON = page, values })
	if err := Run(t.Context(), o, &out, &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	var r Report
	text, err := os.ReadFile(values)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &r); err != nil || r.Schema != schema || r.Streams[0].Codes["OK"] == 0 {
		t.Errorf("%v, %+v", err, r)
	}
	html, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(html, []byte("<polyline")); n != 5 {
		t.Errorf("%d lines are drawn, want 5", n)
	}
	if !strings.Contains(out.String(), fmt.Sprintf("OK %d", r.Streams[0].Codes["OK"])) {
		t.Errorf("the text has other figures than the JSON form:\n%s", out.String())
	}

	out.Reset()
	o.JSON, o.HTML = "-", ""
	if err := Run(t.Context(), o, &out, &bytes.Buffer{}); err != nil || json.Unmarshal(out.Bytes(), &r) != nil {
		t.Errorf("%v, not JSON alone:\n%s", err, out.String())
	}
	o.JSON = filepath.Join(dir, "missing", "report.json")
	if err := Run(t.Context(), o, &out, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "report.json") {
		t.Errorf("%v; want an error that names the file", err)
	}
}

// TestPage asks for nothing from elsewhere, and takes names as text.
func TestPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stream(func(s *Stream) { s.Name, s.Rate = "<script>alert(1)</script>", 100 })
		r, err := search100(t.Context(), within200ms, s)
		if err != nil {
			t.Fatal(err)
		}
		var page bytes.Buffer
		if err := r.html(&page); err != nil {
			t.Fatal(err)
		}
		if found := regexp.MustCompile(`(?i)<script|https?:|src=|href=|@import|url\(|NaN|Inf`).Find(page.Bytes()); found != nil {
			t.Errorf("the page has %q", found)
		}
		if n := bytes.Count(page.Bytes(), []byte("<polyline")); n != 6 {
			t.Errorf("%d lines are drawn, want 6", n)
		}
	})
}

func TestChart(t *testing.T) {
	c := newChart("", false, nil, curve{"a", []float64{0, 5, 10}, []float64{0, 4, 8}})
	if diff := cmp.Diff("60.0,212.0 345.0,112.0 630.0,12.0 ", c.Lines[0].Points); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]mark{{212, "0"}, {162, "2"}, {112, "4"}, {62, "6"}, {12, "8"}}, c.Up); diff != "" {
		t.Error(diff)
	}
	c = newChart("", true, []mark{{1, "p50"}}, curve{"a", []float64{0, 1, 2}, []float64{0.1, 1, 0}})
	if diff := cmp.Diff("60.0,112.0 345.0,62.0 630.0,212.0 ", c.Lines[0].Points); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]mark{{345, "p50"}}, c.Across); diff != "" {
		t.Error(diff)
	}
	for _, logarithmic := range []bool{false, true} {
		if c := newChart("", logarithmic, nil, curve{label: "nothing"}); c.Lines[0].Points != "" || len(c.Up) != 2 {
			t.Errorf("a chart of nothing: %+v", c)
		}
	}
}

func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &runner{warmup: 2 * time.Second, duration: 10 * time.Second}
		say := r.progress()
		for _, step := range []struct {
			wait          time.Duration
			ended, failed int64
			want          string
		}{
			{time.Second, 100, 0, "1 of 12 s, warming up: 100 ended, 0 failed, 100/s"},
			{5 * time.Second, 300, 1, "6 of 12 s, measuring: 400 ended, 1 failed, 60/s"},
			{7 * time.Second, 7, 1, "13 of 12 s, waiting for answers: 407 ended, 2 failed, 1/s"},
		} {
			time.Sleep(step.wait)
			r.ended.Add(step.ended)
			r.failed.Add(step.failed)
			if got := say(); got != step.want {
				t.Errorf("%q, want %q", got, step.want)
			}
		}
	})
}
