package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weftserve/weft/internal/ortlib"
	"github.com/weftserve/weft/tools/lab/harness/harnesstest"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == burnWord { // a test is the program that burners are started from
		burn(os.Stdin)
		return
	}
	harnesstest.Main(m)
}

// TestDemo plays it without a user: every key does what it says, and all ends.
func TestDemo(t *testing.T) {
	weft := harnesstest.Weft(t)
	if _, err := ortlib.Find(); err != nil {
		t.Skip(err)
	}
	in, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	o := options{
		weft: weft, examples: "../../../examples/models", ports: "free",
		press: "c@500ms,s@1s,s@2s,f@2s,f@4s,q@5s",
	}
	var out bytes.Buffer
	err = run(t.Context(), &o, in, &out)
	t.Log(out.String())
	if err != nil {
		t.Fatal(err)
	}
	said := out.String()
	for _, want := range []string{
		"/live/\n", "--input observation='[[", "[c] Version 2 gets", "[c] running: version 2 gets 20 %",
		"[s] Other programs", "[s] The device has", "[f] Ten times", "[f] The flood is over",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %q", want)
		}
	}
	if regexp.MustCompile(`Stopping\. \d\d+ requests were answered`).FindString(said) == "" {
		t.Error("no requests were answered")
	}
	address := regexp.MustCompile(`top --address (\S+)`).FindStringSubmatch(said)
	if address == nil {
		t.Fatal("it does not say where the server is")
	}
	if conn, err := net.Dial("tcp", address[1]); err == nil {
		conn.Close()
		t.Error("the server is still there")
	}
}

func TestServerThatFails(t *testing.T) {
	in, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	for program, want := range map[string]string{"absent": "make build", "/bin/true": "ended before it was ready"} {
		var out bytes.Buffer
		o := options{weft: program, examples: "../../../examples/models", ports: "free"}
		if err := run(t.Context(), &o, in, &out); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", program, err, want)
		}
	}
	o := options{weft: "/bin/true", examples: t.TempDir()}
	if err := run(t.Context(), &o, in, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "--models") {
		t.Errorf("without models: %v", err)
	}
}

func TestParsePresses(t *testing.T) {
	got, err := parsePresses("f@10s, c@5s")
	if err != nil || fmt.Sprint(got) != fmt.Sprint([]press{{'c', 5 * time.Second}, {'f', 10 * time.Second}}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{"c", "c@", "x@5s", "cc@5s", "c@-1s", "c@5s,", "@5s"} {
		if got, err := parsePresses(text); err == nil || !strings.Contains(err.Error(), "such as c@5s") {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}
