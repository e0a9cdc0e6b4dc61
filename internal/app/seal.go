package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/weftserve/weft/runtime/modelfile"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// sealQuiet is how long the files of a version must stay as they are to be taken for complete, as modelrepo.WatchConfig
// has it for a server.
const sealQuiet = time.Second

// Seal writes the SHA256SUMS of every version of the repositories that has files, and to out which ones it wrote. It
// refuses a version whose files change meanwhile. What is wrong with one version keeps no other from being sealed.
func Seal(ctx context.Context, repositories []string, out io.Writer) error {
	repository, err := modelrepo.Open(repositories...)
	if err != nil {
		return err
	}
	began := time.Now()
	before := repository.Scan()
	faults := append([]error(nil), before.Faults...)
	sums := map[string][]byte{}
	for _, v := range filed(&before) {
		err := v.Err
		if err == nil {
			sums[v.Dir], err = sumsOf(ctx, v)
		}
		faults = append(faults, err)
	}
	select {
	case <-time.After(sealQuiet - time.Since(began)):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	after := repository.Scan()
	for _, v := range filed(&after) {
		text := sums[v.Dir]
		if text == nil {
			continue // it was refused above, or has come since
		}
		path := filepath.Join(v.Dir, modelfile.SumsName)
		switch now, _ := os.ReadFile(path); {
		case v.Fingerprint != fingerprintOf(&before, v.Dir):
			faults = append(faults, fmt.Errorf("%s %w; seal it when it is complete", v.Dir, modelfile.ErrChanged))
		case bytes.Equal(now, text):
			fmt.Fprintf(out, "%s is up to date\n", path)
		default:
			if err := modelfile.WriteSums(v.Dir, text); err != nil {
				faults = append(faults, err)
				continue
			}
			fmt.Fprintf(out, "%s written, %d files\n", path, bytes.Count(text, []byte("\n")))
		}
	}
	return errors.Join(faults...)
}

// filed returns the versions of a listing that have files. Of a model that cannot be read there is one, with the
// reason.
func filed(l *modelrepo.Listing) (all []modelrepo.Version) {
	for _, m := range l.Models {
		if m.Err != nil {
			all = append(all, modelrepo.Version{Dir: m.Dir, Err: m.Err})
		}
		for _, v := range m.Versions {
			if v.Path != "" {
				all = append(all, v)
			}
		}
	}
	return all
}

func fingerprintOf(l *modelrepo.Listing, dir string) string {
	for _, v := range filed(l) {
		if v.Dir == dir {
			return v.Fingerprint
		}
	}
	return ""
}

func sumsOf(ctx context.Context, v modelrepo.Version) ([]byte, error) {
	f, err := modelfile.Read(ctx, v.Repository(), v.Dir)
	if err != nil {
		return nil, err
	}
	return f.Sums(), f.Close()
}
