package app

import (
	"fmt"
	"log/slog"
	"slices"

	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/server"
)

// repository opens the repositories and the list of models, and allows links into the stores of models.
func (s *Settings) repository() (*modelrepo.Repository, error) {
	r, err := modelrepo.OpenListed(s.ModelConfigFile, s.folders()...)
	if err != nil {
		return nil, err
	}
	if s.staged != nil {
		r.Reserve(s.staged.dir, "the server follows files that its command line names, and takes no uploads of them: "+
			"write the file anew, or serve a repository: `mkdir -p models/%[1]s/1 && "+
			"cp %[1]s.onnx models/%[1]s/1/model.onnx && weft serve models`")
		if s.Name != "" {
			r.Rename(s.staged.dir)
		}
	}
	for _, m := range s.mirrors {
		r.Reserve(m.Dir(), "model %s would go to the copy of a bucket or registry, which follows that; put the version there")
	}
	if s.Roster != "" {
		d, err := newDivision(&s.Server, true)
		if err != nil {
			return nil, err
		}
		r.Divide(d.divide)
	}
	return r, r.LinkInto(s.stores()...)
}

// scan lists the models, and logs oddities of the repositories. It is an error if there is no model at all: probably
// the path is wrong.
func scan(s *Settings, log *slog.Logger) (*modelrepo.Repository, modelrepo.Listing, error) {
	repository, err := s.repository()
	if err != nil {
		return nil, modelrepo.Listing{}, err
	}
	listing := repository.Scan()
	if len(listing.Models) == 0 {
		return nil, modelrepo.Listing{}, listing.Err()
	}
	tellOddities(listing, modelrepo.Listing{}, log)
	if s.Roster != "" {
		log.Info("roster in force, models divided", "event", "roster_in_force", "roster", s.Roster,
			"models", len(listing.Models)-elsewhere(listing), "elsewhere", elsewhere(listing))
	}
	return repository, listing, nil
}

// hiddenHealth says why grpc.health.v1 does not have the health of a model; "": it has.
func hiddenHealth(model string) string {
	if !server.OwnHealth(model) {
		return ""
	}
	return fmt.Sprintf("grpc.health.v1 has the service %q for the server itself: give the model another name, or ask "+
		"/readyz/%s or the Open Inference Protocol", model, model)
}

// tellOddities logs faults and notes of a listing that the one before did not have. The text decides which are the
// same.
func tellOddities(now, before modelrepo.Listing, log *slog.Logger) {
	known := map[string]bool{}
	for _, fault := range before.Faults {
		known[fault.Error()] = true
	}
	for _, m := range before.Models {
		known[hiddenHealth(m.Name)] = true
		for _, note := range slices.Concat(m.Notes, m.Unused) {
			known[note] = true
		}
		if m.Elsewhere != nil {
			known[m.Elsewhere.Error()] = true
		}
	}
	for _, fault := range now.Faults {
		if !known[fault.Error()] {
			log.Error("part of the repository not served", "event", "repository_fault_found", "cause", fault)
		}
	}
	for _, m := range now.Models {
		if cause := hiddenHealth(m.Name); cause != "" && !known[cause] {
			log.Warn("health of a model not served", "event", "model_health_hidden", "model", m.Name, "cause", cause)
		}
		if e := m.Elsewhere; e != nil && len(e.Replicas) == 0 && !known[e.Error()] {
			log.Error("model on no replica", "event", "model_nowhere", "model", m.Name, "cause", e)
		}
		for _, note := range m.Notes {
			if !known[note] {
				log.Warn("repository entry passed over", "event", "repository_entry_ignored", "model", m.Name,
					"cause", note)
			}
		}
		for _, note := range m.Unused {
			if !known[note] {
				log.Warn("setting has no effect here", "event", "setting_unused", "model", m.Name, "cause", note)
			}
		}
	}
}
