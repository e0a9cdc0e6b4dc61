package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/runtime/roster"
)

// Placing says what Place writes.
type Placing struct {
	Envoy   string // a file; "": none
	Address string // of replicas whose roster names none, with NAME in the place of the name
	List    bool   // print the models of each replica as YAML in the place of the tables
}

// Place prints which replica of the roster has which models, as each server computes it by itself. The error says which
// models are on no replica, or on too few. The log goes to errs.
func Place(s *Settings, how Placing, out, errs io.Writer) error {
	if err := s.Check(); err != nil {
		return err
	}
	if s.Roster == "" {
		return config.Faults{{
			Key:     "--roster",
			Message: "expected the roster of the replicas: a YAML file, or an environment variable with names between commas",
		}}
	}
	if err := s.stage(); err != nil {
		return err
	}
	defer s.unstage()
	d, err := newDivision(&s.Server, false)
	if err != nil {
		return err
	}
	if err := s.copyRemote(context.Background(), newLogger(errs, s, new(slog.LevelVar))); err != nil {
		return err
	}
	undivided := *s
	undivided.Roster = ""
	repository, err := undivided.repository()
	if err != nil {
		return err
	}
	l := repository.Scan()
	if len(l.Models) == 0 {
		return l.Err()
	}
	t, faults := d.place(&l), []error{l.Err()}
	for i := range t.Models {
		m := &t.Models[i]
		if why := noRoom(t, m); why != "" {
			faults = append(faults, fmt.Errorf("model %q is on %d replicas of %d: %s", m.Name, len(m.On), m.Copies, why))
		}
	}
	if how.Envoy != "" && l.Err() != nil {
		faults = append(faults, fmt.Errorf("--envoy: %s is left as it is, since what cannot be read cannot be placed; mend "+
			"the repository first", how.Envoy))
	} else if how.Envoy != "" {
		text, err := t.Envoy(how.Address)
		if err != nil {
			return fmt.Errorf("--address: %w", err)
		}
		if err := replaceFile(how.Envoy, text); err != nil {
			return fmt.Errorf("--envoy: %w", err)
		}
	}
	if how.List {
		_, err = io.WriteString(out, t.List())
	} else {
		err = printTable(t, out)
	}
	return errors.Join(append(faults, err)...)
}

// printTable prints where each model is, and then how full each replica is.
func printTable(t *roster.Table, out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MODEL\tMEMORY\tCOPIES\tREPLICAS")
	for i := range t.Models {
		m := &t.Models[i]
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", m.Name, about(m.Size), len(m.On),
			cmp.Or(strings.Join(t.Names(m), ", "), "none: no room"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nREPLICA\tMODELS\tMEMORY\tROOM")
	for r, replica := range t.Replicas {
		left := "unbounded"
		if room, bounded := t.Room(r); bounded {
			left = about(room)
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\n", replica.Name, len(t.ModelsOf(r)), about(t.Used[r]), left)
	}
	return w.Flush()
}

// replaceFile writes a file in one step, as those expect who watch its directory.
func replaceFile(path, text string) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), ".weft-place-*")
	if err != nil {
		return err
	}
	_, err = temporary.WriteString(text)
	err = errors.Join(err, temporary.Chmod(0o644), temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		_ = os.Remove(temporary.Name()) // the other error is the one that matters
	}
	return err
}
