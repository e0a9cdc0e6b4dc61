// Package script plays scripts for tests of state machines: files of events, each with the answer that it must get.
//
//	== a name, with which another script of the file begins
//	# a comment
//	event > answer
//	1..9: event # > answer of #
//	wait 1m30s
//	event >
//		an answer
//		of several lines
//
// An event without an answer must have none. "wait" lets time pass, and asks nobody. One that begins with a range is
// played for each number in the place of "#". Run a test with -rewrite to have the answers of its scripts written into
// the files, and read the difference.
package script

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

var rewrite = flag.Bool("rewrite", false, "write the answers of scripts into their files")

// Play plays each script of a file in a bubble of testing/synctest. begin makes what it is played on, and returns what
// answers its events.
func Play(t *testing.T, file string, begin func(t *testing.T) func(event string) string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const border = "\n== "
	scripts := strings.Split("\n"+string(text), border)
	for i, one := range scripts {
		name, _, _ := strings.Cut(one, "\n")
		if i == 0 || strings.TrimSpace(one) == "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var wrong []string
				answers := begin(t)
				scripts[i], wrong = play(one, func(event string) string {
					if howLong, waits := strings.CutPrefix(event, "wait "); waits {
						return pass(howLong)
					}
					return answers(event)
				})
				if len(wrong) > 0 && !*rewrite {
					t.Errorf("%s:\n%s", file, strings.Join(wrong, "\n"))
				}
			})
		})
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(strings.Join(scripts, border)[1:]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// pass lets so much time pass. What then happens has happened when it returns.
func pass(howLong string) string {
	d, err := time.ParseDuration(howLong)
	if err != nil {
		return err.Error()
	}
	time.Sleep(d)
	synctest.Wait()
	return ""
}

var ranged = regexp.MustCompile(`^(\d+)\.\.(\d+): (.*)`)

// play returns a script with the answers that its events got, and a text for each answer that was not the expected one.
// The first line is the name of the script.
func play(script string, answers func(event string) string) (played string, wrong []string) {
	lines := strings.Split(script, "\n")
	all := lines[:1:1]
	for at := 1; at < len(lines); at++ {
		if lines[at] == "" || lines[at][0] == '#' {
			all = append(all, lines[at])
			continue
		}
		event, want, _ := strings.Cut(lines[at]+" ", " > ")
		event, want = strings.TrimSpace(event), strings.TrimSpace(want)
		from := at
		for at+1 < len(lines) && strings.HasPrefix(lines[at+1], "\t") {
			at++
		}
		if at > from {
			want = "\n" + strings.Join(lines[from+1:at+1], "\n")
		}
		first, last, one := 0, 0, event
		if m := ranged.FindStringSubmatch(event); m != nil {
			first, _ = strconv.Atoi(m[1])
			last, _ = strconv.Atoi(m[2])
			one = m[3]
		}
		got := ""
		for i := first; i <= last; i++ {
			number := strconv.Itoa(i)
			got = answers(strings.ReplaceAll(one, "#", number))
			if got != "" && strings.Contains(got, "\n") {
				got = "\n\t" + strings.ReplaceAll(strings.TrimSpace(got), "\n", "\n\t")
			}
			if got != strings.ReplaceAll(want, "#", number) {
				wrong = append(wrong, fmt.Sprintf("%s > %s\nwanted: %s", event, got, want))
			}
		}
		if first < last { // as the last one got it
			got = strings.ReplaceAll(got, strconv.Itoa(last), "#")
		}
		if got != "" {
			event += strings.TrimSuffix(" > "+got, " ")
		}
		all = append(all, strings.ReplaceAll(event, " > \n", " >\n"))
	}
	return strings.Join(all, "\n"), wrong
}

// Compare compares texts with the ones of a file, each below its name as a script is.
func Compare(t *testing.T, file string, texts map[string]string) {
	t.Helper()
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		parts = append(parts, "== "+name+"\n"+strings.TrimSpace(texts[name])+"\n")
	}
	all := strings.Join(parts, "\n")
	if *rewrite {
		if err := os.WriteFile(file, []byte(all), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(all, "\n")); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// JSON returns a message as JSON, each of its fields on a line, and always the same text.
func JSON(m proto.Message) string {
	text, err := protojson.Marshal(m)
	if err != nil {
		return err.Error()
	}
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", " "); err != nil {
		return err.Error()
	}
	return out.String()
}
