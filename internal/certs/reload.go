package certs

import (
	"context"
	"crypto/sha256"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// settle is how long after a change the files are read: the certificate and its key are seldom written at once.
	settle = 100 * time.Millisecond
	// pollEvery is how often the files are read without a notification, since some file systems give none. Expiry is
	// checked as often.
	pollEvery = 10 * time.Second
)

// Run replaces the certificates when their files change, and warns before they expire, until ctx ends. Run it once.
func (k *Keeper) Run(ctx context.Context) error {
	events, lost, stop := k.watch()
	defer stop()
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	// The first read is at once: the files may have changed since Open, before they were watched.
	settled := time.NewTimer(0)
	defer settled.Stop()
	k.expiry.look(time.Now(), k.now.Load())
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-events:
			settled.Reset(settle)
		case <-lost: //nolint:errcheck // an event, maybe
			settled.Reset(settle)
		case <-poll.C:
			k.expiry.look(time.Now(), k.now.Load())
			if k.again(false) {
				settled.Reset(settle)
			}
		case <-settled.C:
			if k.again(false) {
				settled.Reset(settle)
			}
		}
	}
}

// watch returns notifications of changes in the directories of the files, and of lost notifications. It watches
// directories because in a Kubernetes secret the files themselves never change: a link beside them does. Without a
// watcher both channels are nil, which never deliver, and the files are polled.
func (k *Keeper) watch() (events <-chan fsnotify.Event, lost <-chan error, stop func()) {
	if k.cfg.SPIFFE != "" {
		return nil, nil, func() {}
	}
	w, err := fsnotify.NewWatcher()
	if err == nil {
		// A directory that is added twice is watched once.
		for _, path := range []string{k.cfg.Cert, k.cfg.Key, k.cfg.ClientCA} {
			if path != "" && err == nil {
				err = w.Add(filepath.Dir(path))
			}
		}
		if err == nil {
			return w.Events, w.Errors, func() { _ = w.Close() }
		}
		_ = w.Close()
	}
	k.cfg.Log.Warn("certificates not watched", "event", "certificates_not_watched", "cause", err,
		"effect", "they are read every "+pollEvery.String()+" instead")
	return nil, nil, func() {}
}

// Reload reads the files now, and logs what is wrong with them at once: an operator asked for it.
func (k *Keeper) Reload() { k.again(true) }

// again reads the files, and publishes them if they are new and without a fault. Faulty files may be half written. So
// it reports doubt and says nothing the first time; if the next read finds the same fault, it logs it, once. A complete
// read logs it at once.
func (k *Keeper) again(complete bool) (doubt bool) {
	if k.cfg.SPIFFE != "" {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	c, err := k.cfg.Files.read()
	var sum [sha256.Size]byte
	var m *material
	if err == nil {
		// The files are those in force, perhaps again: an earlier fault was mended.
		if sum = c.sum(); sum == k.sum {
			k.doubt, k.denied = sum, false
			return false
		}
		m, err = k.cfg.Files.material(c, time.Now())
	} else {
		// A file that cannot be read has no contents to compare; its error stands for them.
		sum = sha256.Sum256([]byte(err.Error()))
	}
	if err == nil {
		// Handshakes from now on use the new files; handshakes under way go on with the earlier ones.
		k.publish(m)
		k.sum, k.doubt, k.denied = sum, sum, false
		k.tellReloaded(m)
		k.warnOfKey()
		return false
	}
	// The same fault twice, some time apart, is no half-written file.
	first := k.doubt != sum
	if first {
		k.doubt, k.denied = sum, false
	}
	if complete || !first && !k.denied {
		k.denied = true
		k.cfg.Log.Error("certificates rejected", "event", "certificates_rejected", "cause", err,
			"kept", "previous certificates", "remedy", "mend the file; it is read again when it changes")
	}
	return first && !complete
}

// tellReloaded logs what is in force now. By the serial number an operator tells two certificates of one name apart.
func (k *Keeper) tellReloaded(m *material) {
	leaf := m.pair.Leaf
	k.cfg.Log.Info("certificates reloaded", "event", "certificates_reloaded", "subject", subject(leaf),
		"serial", leaf.SerialNumber.Text(16), "expires", date(leaf.NotAfter), "client_cas", len(m.cas))
}
