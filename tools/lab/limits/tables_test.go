package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/tools/lab/harness"
)

// overloadedBook is of a server that can do 1000 a second, in two rounds.
func overloadedBook() *book {
	b := newBook()
	for round := range 2 {
		note := func(scene, target, figure string, value float64) {
			b.note(key{"1-core", scene, target, figure}, round, value)
		}
		scene := ladderScene(hurried, 2)
		note(capacityScene+overloadPart, weftDevice, answersFigure, 1000)
		note(refusalScene, echoRefusal, cpuFigure, 100)
		note(scene, weftDevice, offeredFigure, 2000)
		note(scene, weftDevice, refusalsFigure, 1000)
		note(scene, weftDevice, goodputFigure, float64(900-450*round))
		note(slowScene+leaving.name, weftDevice, beforeFigure, 800)
		note(slowScene+leaving.name, weftDevice, recoveryFigure, 1.5)
	}
	return b
}

// TestTables: the ladder has both terms of the bound, and what no run is left of has a dash.
func TestTables(t *testing.T) {
	c, places := &runCommand{}, []place{{name: "1-core"}}
	tables := c.tables(overloadedBook(), places, c.effort())
	rows := map[string][][]string{}
	for _, table := range tables {
		rows[table.Title] = table.Rows
	}
	if diff := cmp.Diff([][]string{{
		"2 x, deadline 50 ms", "1-core", "weft", "2000 (2000 to 2000)", "1000 (1000 to 1000)", "100 (100 to 100)",
		"675 (450 to 900)", "0.75 (0.50 to 1.00)", "–", "–", "–",
	}}, rows["More than it can do"]); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([][]string{{
		leaving.name, "1-core", "weft", "800 (800 to 800)", "–", "1.5 (1.5 to 1.5)", "–",
	}}, rows["Slow for a while"]); diff != "" {
		t.Error(diff)
	}
	if _, there := rows["ONNX Runtime without a server"]; there {
		t.Error("a table of what was not measured")
	}
}

// TestPage: a full run writes a page of whole tables, a quick one does not.
func TestPage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.md")
	for _, quick := range []bool{true, false} {
		var text bytes.Buffer
		c := &runCommand{Out: path, Quick: quick}
		if err := c.publish(overloadedBook(), []place{{name: "1-core"}}, c.effort(), harness.Output{Out: &text}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text.String(), "0.75 (0.50 to 1.00)") {
			t.Errorf("quick %v: the text has not the ratio:\n%s", quick, text.String())
		}
		page, err := os.ReadFile(path)
		if os.IsNotExist(err) != quick {
			t.Fatalf("quick %v: the page: %v", quick, err)
		}
		columns := 0
		for line := range strings.Lines(string(page)) {
			switch n := strings.Count(line, "|"); {
			case n == 0:
				columns = 0
			case columns == 0:
				columns = n
			case n != columns:
				t.Errorf("%q has %d columns, those above %d", line, n-1, columns-1)
			}
		}
	}
}
