// Command demo starts a server with two versions of a policy, a shadow and a ranker, has made-up robots ask it, and
// says where to look and what to try: `make demo`. Keys cause a canary, a slow device and a flood.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	weft, examples string
	ports          string
	last           time.Duration
	press          string
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == burnWord {
		burn(os.Stdin)
		return
	}
	var o options
	flag.StringVar(&o.weft, "weft", "bin/weft", "the program `file`")
	flag.StringVar(&o.examples, "models", "examples/models", "the `folder` of the trained policies")
	flag.StringVar(&o.ports, "ports", "usual", "usual: 9000, 9001 and 9002 where nobody listens there; free: any")
	flag.DurationVar(&o.last, "for", 0, "end after this `time`; 0 waits for q or Ctrl-C")
	flag.StringVar(&o.press, "press", "", "keys to press by themselves, such as c@5s,f@10s,f@15s")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, &o, os.Stdin, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "demo: %v\n", err)
		os.Exit(1)
	}
}

// run plays the demo until the context ends, the time is over, or the user quits.
func run(ctx context.Context, o *options, in *os.File, out io.Writer) (err error) {
	presses, err := parsePresses(o.press)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "weft-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	fmt.Fprintln(out, "Writing the models, and starting the server ...")
	if err := writeModels(folder+"/models", o.examples); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := serve(ctx, o, folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	d, err := newStage(s, out)
	if err != nil {
		return err
	}
	d.fill(ctx)
	defer d.close()
	d.say("%s", d.welcome())
	restore, raw := takeKeys(ctx, in, d.keys)
	defer restore()
	d.raw = raw
	if !raw && o.last == 0 && o.press == "" {
		d.say("The input is no terminal, so that keys do nothing: --for 30s --press c@5s,f@10s presses them by themselves.")
	}
	return d.play(ctx, o.last, presses)
}
