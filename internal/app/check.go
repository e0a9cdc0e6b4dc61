package app

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/weftserve/weft/internal/certs"
	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/sharedsched/shell"
)

// Checking says what Check does besides reading settings and repositories, and in which form it prints.
type Checking struct {
	Load bool // the models, as `weft serve` would
	JSON bool // print Findings as JSON
}

// Check prints the settings that differ from their defaults and how each version is served to out, and each fault to
// errs. A fault of one thing does not keep the others from being checked. With --log-level debug it prints defaults
// too, and the log of the check. The error is errFaults or a *misconfigured if there was a fault, or that the check was
// interrupted.
func Check(s *Settings, how Checking, out, errs io.Writer) error {
	r := &report{
		Findings: Findings{Models: []ModelFindings{}, Faults: []string{}, Notes: []string{}},
		defaults: s.LogLevel == "debug",
	}
	if err := r.check(s, how, errs); err != nil {
		return err
	}
	r.rename(s.staged.told)
	if !how.JSON {
		r.text(out, errs)
	} else if err := r.json(out); err != nil {
		return err
	}
	return r.verdict()
}

// check collects the findings. The error is an interruption, or that no models can be loaded for the check at all.
func (r *report) check(s *Settings, how Checking, errs io.Writer) error {
	if r.wrong = s.Check(); r.wrong != nil {
		r.fault(r.wrong)
	}
	sound := r.wrong == nil
	r.Settings = r.settings(&s.Server, config.DefaultServer())
	// The access file is read on its own. Whether it fits the addresses (keepClosed) shows only at the start of a
	// server.
	if s.Access != "" {
		if _, err := readAccess(s.Access); err != nil {
			r.wrong = errors.Join(r.wrong, err)
			r.fault(err)
		}
	}
	if err := s.stage(); err != nil {
		r.fault(err)
		return nil
	}
	defer s.unstage()
	if err := s.copyRemote(context.Background(), newLogger(errs, s, new(slog.LevelVar))); err != nil {
		r.fault(err)
		return nil
	}
	repository, err := s.repository()
	if err != nil {
		r.fault(err)
		return nil
	}
	listing := repository.Scan()
	r.listing(&listing)
	if !sound {
		return nil // it would be another server that is tried
	}
	r.digests(&listing, reads(&s.Server, s.stores()), how.Load)
	if s.TLSCert != "" {
		// The files are read and checked. Nothing is followed, so that there is nothing to close.
		_, err := certs.Open(context.Background(), certs.Config{Files: certFiles(s), Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			r.fault(err)
		}
	}
	present, err := checkDevices(s, r)
	if err != nil {
		return err
	}
	if unused := unusedGPUs(&s.Server, listing); unused != "" {
		r.note(unused)
	}
	if how.Load {
		return checkModels(s, r, listing, present, errs, how.JSON)
	}
	return nil
}

// checkDevices reports the GPUs of --devices that the driver does not show as faults, and GPUs that it says nothing
// about as notes. The error is that of letting go of the driver.
func checkDevices(s *Settings, r *report) (presence, error) {
	// it is not run: it hears of no loss
	gpus := watchGPUs(&s.Server, gpuStandIns{}, nil, slog.New(slog.DiscardHandler))
	present := findDevices(&s.Server, gpus)
	for _, name := range slices.Sorted(maps.Keys(present.absent)) {
		r.fault(present.absent[name])
	}
	for _, name := range slices.Sorted(maps.Keys(present.unknown)) {
		r.note(present.unknown[name].Error())
	}
	if gpus == nil || gpus.close == nil {
		return present, nil
	}
	return present, gpus.close()
}

// checkModels loads the models as `weft serve` would, and reports the results. It shows progress on errs unless quiet
// is set. The error is an interruption. It opens no listener, so that it may run beside a server.
func checkModels(s *Settings, r *report, listing modelrepo.Listing, present presence, errs io.Writer,
	quiet bool,
) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)         // a load may take its time to end; a further signal does not wait for it
	log := slog.New(slog.DiscardHandler) // the report has the facts that the log would have
	var shown *loadingLine
	if !quiet {
		shown = newLoadingLine(errs, "weft check")
		defer shown.Close()
		// The log and the line share the terminal.
		errs = shown
	}
	if s.LogLevel == "debug" {
		log = newLogger(errs, s, new(slog.LevelVar))
	}
	// A server tries a load again after a pause; a check reports the first failure.
	models := host.Config{TryOnce: true, Read: reads(&s.Server, s.stores())}
	h, err := newHouse(&s.Server, log, nil, models, shell.Options{})
	if err != nil {
		return err
	}
	// Models are placed as a server would place them.
	present.loseAbsent(h.models)
	if err := h.library.check(listing); err != nil {
		r.fault(err)
	} else if err := h.load(ctx, listing, shown); err != nil {
		return err
	} else {
		r.versions(listing, h.models.Snapshot(), h.scheduler.State())
		r.tolerances(listing, h.models.Snapshot())
	}
	return h.close(ctx)
}

// load loads the listed models, and returns when each version is ready or has failed. It shows progress on shown unless
// that is nil.
func (h *house) load(ctx context.Context, l modelrepo.Listing, shown *loadingLine) error {
	h.models.Follow(l)
	if shown != nil {
		shown.follow(h.models.Snapshot)
		defer shown.Close()
	}
	return h.models.Settled(ctx)
}
