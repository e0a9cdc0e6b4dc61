// Command confine runs a program under the system calls, the address families and the limits of memory that a unit of
// systemd allows: confine UNIT PROGRAM [ARGUMENT...]. It shows, without systemd, that a program can work under these.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/sys/unix"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "confine:", err)
		os.Exit(1)
	}
}

// run replaces this process by the program.
func run(args []string) error {
	if len(args) < 2 {
		return errors.New("usage: confine UNIT PROGRAM [ARGUMENT...]")
	}
	text, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	policy, err := policyOf(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	program, err := exec.LookPath(args[1])
	if err != nil {
		return err
	}
	if err := seccomp.LoadFilter(seccomp.Filter{
		NoNewPrivs: true, Flag: seccomp.FilterFlagTSync, Policy: *policy,
	}); err != nil {
		return err
	}
	return syscall.Exec(program, args[1:], os.Environ())
}

// setting returns a setting of a unit, as words.
func setting(unit, key string) (words []string) {
	for line := range strings.Lines(unit) {
		if value, is := strings.CutPrefix(line, key+"="); is {
			words = append(words, strings.Fields(value)...)
		}
	}
	return words
}

var families = map[string]uint64{
	"AF_UNIX": unix.AF_UNIX, "AF_INET": unix.AF_INET, "AF_INET6": unix.AF_INET6, "AF_NETLINK": unix.AF_NETLINK,
}

// policyOf returns what a unit allows; anything else fails with EPERM.
func policyOf(unit string) (*seccomp.Policy, error) {
	names, err := calls(setting(unit, "SystemCallFilter"))
	if err != nil {
		return nil, err
	}
	machine, err := arch.GetInfo("")
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		_, known := machine.SyscallNames[name]
		return !known // it is another architecture's
	})
	allowed := seccomp.SyscallGroup{Action: seccomp.ActionAllow, Names: names}
	// only allows a call under one of some conditions, if the unit allows it at all.
	only := func(name string, under ...seccomp.Condition) {
		at := slices.Index(allowed.Names, name)
		if at < 0 {
			return
		}
		allowed.Names = slices.Delete(allowed.Names, at, at+1)
		for _, c := range under {
			allowed.NamesWithCondtions = append(allowed.NamesWithCondtions,
				seccomp.NameWithConditions{Name: name, Conditions: []seccomp.Condition{c}})
		}
	}
	var sockets []seccomp.Condition
	for _, name := range setting(unit, "RestrictAddressFamilies") {
		family, known := families[name]
		if !known {
			return nil, fmt.Errorf("RestrictAddressFamilies: %s is not known here", name)
		}
		sockets = append(sockets, seccomp.Condition{Argument: 0, Operation: seccomp.Equal, Value: family})
	}
	only("socket", sockets...)
	if slices.Equal(setting(unit, "MemoryDenyWriteExecute"), []string{"yes"}) {
		without := func(bit uint64) seccomp.Condition {
			return seccomp.Condition{Argument: 2, Operation: seccomp.BitsNotSet, Value: bit}
		}
		only("mmap", without(unix.PROT_EXEC), without(unix.PROT_WRITE))
		only("mprotect", without(unix.PROT_EXEC))
		only("pkey_mprotect", without(unix.PROT_EXEC))
	}
	return &seccomp.Policy{
		DefaultAction: seccomp.ActionErrno, Syscalls: []seccomp.SyscallGroup{allowed},
	}, nil
}

// calls returns the system calls of a list with groups, such as @file-system, which systemd-analyze resolves.
func calls(list []string) (names []string, err error) {
	for todo := slices.Clone(list); len(todo) > 0; {
		next := todo[0]
		todo = todo[1:]
		if !strings.HasPrefix(next, "@") {
			if !slices.Contains(names, next) {
				names = append(names, next)
			}
			continue
		}
		var stderr bytes.Buffer
		c := exec.CommandContext(context.Background(),
			"systemd-analyze", "syscall-filter", "--no-pager", next)
		c.Stderr = &stderr
		out, err := c.Output()
		if err != nil {
			return nil, fmt.Errorf("systemd-analyze syscall-filter %s: %w: %s", next, err, stderr.String())
		}
		for line := range strings.Lines(string(out)) {
			if word := strings.TrimSpace(line); word != next && word != "" && !strings.HasPrefix(word, "#") {
				todo = append(todo, word)
			}
		}
	}
	if len(names) == 0 {
		return nil, errors.New("SystemCallFilter= allows nothing")
	}
	return names, nil
}
