package app

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/catalog"
)

func TestLoadingText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		time.Sleep(time.Minute)
		version := func(number int64, l *catalog.LoadProgress) *catalog.Version {
			v := &catalog.Version{Model: "pick", Number: number, State: catalog.Ready}
			if l != nil {
				v.State, v.Loading = catalog.Loading, func() catalog.LoadProgress { return *l }
			}
			return v
		}
		ready, waiting := version(1, nil), version(2, &catalog.LoadProgress{Since: began})
		proving := version(3, &catalog.LoadProgress{
			Stage: catalog.StageProving, Done: 12, Of: 40, Since: began.Add(time.Second),
		})
		opening := version(4, &catalog.LoadProgress{Stage: catalog.StageOpening, Since: began.Add(2 * time.Second)})
		for _, c := range []struct {
			want     string
			versions []*catalog.Version
		}{
			{"", []*catalog.Version{ready}},
			{"loaded 1 of 2", []*catalog.Version{ready, waiting}},
			{"loaded 1 of 3: pick/3 proving batching 12 of 40, 59s", []*catalog.Version{ready, waiting, proving}},
			{
				"loaded 0 of 3: pick/3 proving batching 12 of 40, 59s; 1 more under way",
				[]*catalog.Version{opening, waiting, proving},
			},
		} {
			s := &catalog.Snapshot{Models: catalog.ByName(&catalog.Model{Name: "pick", Versions: c.versions})}
			if got := loadingText(s); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		}
	})
}

// terminal returns a terminal, and what was written to it so far.
func terminal(t *testing.T) (to *os.File, text func() string) {
	t.Helper()
	t.Setenv("TERM", "xterm")
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err := errors.Join(err, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)); err != nil {
		t.Fatal(err)
	}
	if to, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		t.Skip(err)
	}
	var mu sync.Mutex
	var all bytes.Buffer
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b := make([]byte, 1<<12)
		for {
			n, err := master.Read(b)
			mu.Lock()
			all.Write(b[:n])
			mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		to.Close() // which ends the reading
		<-ended
		master.Close()
	})
	return to, func() string {
		mu.Lock()
		defer mu.Unlock()
		return all.String()
	}
}

// TestLoadingOnATerminal: a server that is started at one shows below its log how far the loading is, until it is
// ready; not where the log is JSON. So does weft check, unless it prints JSON.
func TestLoadingOnATerminal(t *testing.T) {
	repository := t.TempDir()
	weftest.AddVersion(t, repository, "slow", 3)
	// Its runs take so long that the line is shown.
	weftest.SetManifest(t, repository, "slow", `synth: {base: 5ms, `+tensors+"}\nbatching: {max_batch_size: 2}\n")
	const line, cleared = "loaded 0 of 1: slow/3 proving batching ", "\r\x1b[K"
	for _, c := range []struct {
		format config.LogFormat
		shown  bool
	}{{"text", true}, {"json", false}} {
		to, text := terminal(t)
		a := &App{Settings: Settings{Repositories: []string{repository}, Server: config.DefaultServer()}}
		a.Listen, a.HTTP, a.AdminListen, a.LogFormat = "127.0.0.1:0", "", "", c.format
		ended := make(chan error, 1)
		go func() { ended <- a.Run(to) }()
		weftest.Until(t, "the server is ready", func() bool {
			return strings.Contains(text(), "event=ready") || strings.Contains(text(), `"event":"ready"`)
		})
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if all := text(); strings.Contains(all, line) != c.shown || strings.Contains(all, cleared) != c.shown {
			t.Errorf("log format %s, shown: %v\n%q", c.format, !c.shown, all)
		}
		_, after, _ := strings.Cut(text(), "ready\" event=ready")
		if strings.Contains(after, "loaded") {
			t.Errorf("the line is shown when the server is ready: %q", after)
		}
	}
	for _, json := range []bool{false, true} {
		to, text := terminal(t)
		s := &Settings{Repositories: []string{repository}, Server: config.DefaultServer()}
		if err := Check(s, Checking{Load: true, JSON: json}, &bytes.Buffer{}, to); err != nil {
			t.Fatal(err)
		}
		weftest.Until(t, "the line, and its end", func() bool {
			return json || strings.Contains(text(), line) && strings.HasSuffix(text(), cleared)
		})
		if json && text() != "" {
			t.Errorf("with --json it shows %q", text())
		}
	}
}
