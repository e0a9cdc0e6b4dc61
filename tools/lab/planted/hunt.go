package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// found is what the tests said to a bug.
type found struct {
	Bug  bug    `json:"bug"`
	By   string `json:"by"`   // own, importers, or none; gone: nothing like it is in the product any more
	Test string `json:"test"` // package and name
	Took string `json:"took"`
	Note string `json:"note,omitempty"` // tests that failed once and not again
}

// hunt runs the tests against each bug.
func (t *tree) hunt(bugs []bug, name string, whole bool) error {
	before, err := read[found](name)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	out, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	for i, b := range bugs {
		if slices.ContainsFunc(before, func(f found) bool { return f.Bug == b }) {
			continue
		}
		began := time.Now()
		f := t.judge(b, whole)
		f.Took = time.Since(began).Round(time.Second).String()
		if _, err := fmt.Fprintln(out, line(f)); err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "%d of %d: %s %s %s: %s %s (%s)\n", i+1, len(bugs), b.File, b.Func, b.Kind, f.By, f.Test,
			f.Took)
	}
	return nil
}

func (t *tree) judge(b bug, whole bool) found {
	f := found{Bug: b, By: "none"}
	folder, err := os.MkdirTemp("", "planted-")
	if err != nil {
		f.By, f.Note = "error", err.Error()
		return f
	}
	defer os.RemoveAll(folder)
	flag, p, err := t.plant(b, folder)
	if err != nil {
		f.By, f.Note = "gone", err.Error()
		return f
	}
	own, importers := []string{p.ImportPath}, t.importers(p.ImportPath)
	stages := []struct {
		by       string
		packages []string
		short    bool
	}{{"own", own, true}, {"own", own, false}, {"importers", importers, true}}
	if whole {
		stages = append(stages, struct {
			by       string
			packages []string
			short    bool
		}{"importers", importers, false})
	}
	for _, s := range stages {
		if len(s.packages) == 0 {
			continue
		}
		failed := t.test(flag, s.short, "", s.packages...)
		if failed == "" {
			continue
		}
		in, test, _ := strings.Cut(failed, " ")
		if again := t.test(flag, s.short, test, in); again == "" {
			f.Note += failed + "; "
			continue
		}
		f.By, f.Test = s.by, failed
		return f
	}
	return f
}

var (
	failedTest    = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)
	runningTest   = regexp.MustCompile(`(?m)^\t(Test\S+) \(`) // at a timeout
	failedPackage = regexp.MustCompile(`(?m)^FAIL\t(\S+)`)
)

// test runs tests, all or one, and returns package and name of the first that failed; the name is empty where the
// package did not come so far.
func (t *tree) test(flag string, short bool, only string, packages ...string) string {
	args := []string{"test", "-vet=off", "-failfast", "-timeout=10m"}
	if short {
		args = append(args, "-short", "-timeout=4m")
	}
	if only != "" {
		args = append(args, "-run=^"+only+"$")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "go", append(args, packages...)...)
	command.Dir = t.root
	command.Env = append(os.Environ(), "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" "+flag))
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	command.WaitDelay = 10 * time.Second
	out, err := command.CombinedOutput()
	if err == nil {
		return ""
	}
	in, test := packages[0], ""
	if m := failedPackage.FindStringSubmatch(string(out)); m != nil {
		in = m[1]
	}
	if m := failedTest.FindStringSubmatch(string(out)); m != nil {
		test = m[1]
	} else if m := runningTest.FindStringSubmatch(string(out)); m != nil {
		test = m[1]
	}
	return strings.TrimSpace(in + " " + test)
}

// report prints how many bugs were caught, by whom, and which were not.
func report(all []found) {
	counts, by := map[string]int{}, map[string]int{}
	for _, f := range all {
		counts[f.By]++
		if f.Test != "" {
			in, _, _ := strings.Cut(strings.TrimPrefix(f.Test, module+"/"), " ")
			by[in]++
		}
	}
	fmt.Printf("%d bugs: %d caught by the package's own tests, %d by those of importers, %d by none, %d gone\n",
		len(all), counts["own"], counts["importers"], counts["none"], counts["gone"])
	names := make([]string, 0, len(by))
	for name := range by {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return by[b] - by[a] })
	for _, name := range names {
		fmt.Printf("%4d %s\n", by[name], name)
	}
	for _, f := range all {
		if f.By == "none" {
			fmt.Printf("not caught: %s %s %s: %s: %q for %q\n", f.Bug.File, f.Bug.Func, f.Bug.Kind, f.Bug.Line, f.Bug.New,
				f.Bug.Old)
		}
	}
}
