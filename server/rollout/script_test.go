package rollout

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/servertest/script"
)

// player plays scripts: rollouts of a model "m" with the versions 1, 2 and 3, and a fleet of robots that play episodes.
// Each event is answered by the steps that the rollout made since the one before.
//
//	start [automatic] [stages=50,100] [max=1h] [versions=1,2] [agreement=0.9]    advance    abort
//	pass 2s    restart [replacing X by Y]                the latter in what was kept
//	serve N 1 2 [10] episodes until the candidate had N, with these rewards of the baseline and the candidate, or one
//	                 more, and so for as many seconds
//	ask e 2          a request of an episode to a version, with the draw of the one before: redraw e 2
//	keep e 2 1m      one every five seconds                   report e REWARD [by X]    another e
//	left e 2         its next request goes to version 1       saw e 2 REWARD t u [by X]  a report with the tables t and u
//	faults N 2       requests without an episode              shadow N of 2 [agrees] [episode e]
//	put 2 loading | gone    refuse [full]    divide           the host's versions, its refusal, and traffic by another
//	state, traffic, check NAME, episodes, outcome, summary, log, kept, history    what is known of it
type player struct {
	*fleet
	t     *testing.T
	steps int // that were answered
}

func (p *player) event(line string) string {
	answer := p.do(strings.Fields(line))
	r, ok := p.Get("m")
	if !ok {
		return answer
	}
	all := []string{answer}
	if answer == "" {
		all = nil
	}
	for _, s := range r.Steps[min(p.steps, len(r.Steps)):] {
		all = append(all, fmt.Sprintf("%v with %v %% by %s: %s", s.State, s.Percent, s.By, s.Reason))
	}
	p.steps = len(r.Steps)
	return strings.Join(all, "\n")
}

// failed is an error as an answer.
func failed(_ any, err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}

func (p *player) do(words []string) string {
	event, rest := words[0], append(slices.Clone(words[1:]), "", "", "", "")
	n, _ := strconv.Atoi(rest[0])
	version, _ := strconv.ParseInt(rest[1], 10, 64)
	reward, _ := strconv.ParseFloat(rest[1], 64)
	switch event {
	case "start":
		_, err := p.Start(planOf(words[1:]))
		if err == nil {
			p.steps = 0
		}
		return failed(nil, err)
	case "advance":
		return failed(p.Advance("m"))
	case "abort":
		return failed(p.Abort("m"))
	case "pass":
		d, _ := time.ParseDuration(rest[0])
		pass(d)
	case "restart":
		p.restart(p.t, func(k *Kept) {
			if text := strings.Replace(string(k.Text), rest[1], rest[3], 1); rest[0] != "" {
				if text == string(k.Text) {
					p.t.Errorf("there is no %s in %s", rest[1], text)
				}
				k.Text = []byte(text)
			}
		})
	case "serve":
		better, _ := strconv.ParseFloat(rest[2], 64)
		p.serve(n, reward, better)
		for times, _ := strconv.Atoi(rest[3]); times > 1; times-- {
			pass(time.Second)
			p.serve(n, reward, better)
		}
	case "ask":
		p.ask(rest[0], version)
	case "redraw":
		p.draws--
		p.ask(rest[0], version)
	case "keep":
		for end, _ := time.ParseDuration(rest[2]); end > 0; end -= 5 * time.Second {
			p.ask(rest[0], version)
			pass(5 * time.Second)
		}
	case "report":
		p.report(rest[0], reward, rest[3])
	case "left":
		p.Begun("m", 3-version, Beginning{Episode: rest[0], Draw: 1, At: time.Now(), Left: version})
	case "saw":
		reward, _ := strconv.ParseFloat(rest[2], 64)
		tables, by := words[4:], ""
		if i := slices.Index(tables, "by"); i >= 0 {
			tables, by = tables[:i], tables[i+1]
		}
		p.Report("m", rest[0], version, map[string]float64{"reward": reward}, tables, by)
		p.reported(rest[0])
	case "another": // outcome than the one that decides
		p.Report("m", rest[0], 2, map[string]float64{"success": 1}, nil, "")
		p.reported(rest[0])
	case "faults":
		for range n {
			p.Observe("m", version, faulty)
		}
	case "shadow":
		number, _ := strconv.ParseInt(rest[2], 10, 64)
		episode := ""
		if rest[3] == "episode" {
			episode = words[len(words)-1]
		}
		for range n {
			p.Shown("m", number, episode, "done", rest[3] == "agrees")
		}
	case "put":
		p.host.put(int64(n), map[string]catalog.State{
			"loading": catalog.Loading, "unloading": catalog.Unloading, "failed": catalog.Failed, "ready": catalog.Ready,
		}[rest[1]])
	case "refuse":
		switch rest[0] {
		case "":
			p.host.setRefusal(nil)
		case "full":
			p.host.setRefusal(&catalog.KeepError{Model: "m", Cause: syscall.ENOSPC})
		default:
			p.host.setRefusal(errors.New(rest[0]))
		}
	case "divide":
		return failed(p.host.SetTraffic("m", &catalog.Traffic{
			Source: "SetTraffic", Split: []catalog.Slot{{Name: "x", Version: 3, Weight: 1}}, Shadow: p.host.shadows(),
		}, 0))
	default:
		return p.show(event, rest[0])
	}
	return ""
}

// planOf is a plan by hand, unless it is automatic, from version 1 to 2, that looks at a reward from 0 to 4.
func planOf(words []string) Plan {
	p := Plan{Model: "m", BaselineVersion: 1, CandidateVersion: 2, Gate: Gate{
		Outcome: "reward", OutcomeMin: new(0.0), OutcomeMax: new(4.0), MaxErrorRate: 0.1, MaxFailureIncrease: 0.1,
		MaxLostIncrease: 0.1,
	}}
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		var numbers []float64
		for one := range strings.SplitSeq(value, ",") {
			x, _ := strconv.ParseFloat(one, 64)
			numbers = append(numbers, x)
		}
		switch key {
		case "automatic":
			p.Automatic = true
		case "stages":
			p.Stages = numbers
		case "max":
			p.MaxDuration, _ = time.ParseDuration(value)
		case "versions":
			p.BaselineVersion, p.CandidateVersion = int64(numbers[0]), int64(numbers[1])
		case "model":
			p.Model = value
		case "agreement":
			p.Gate = Gate{MinAgreement: numbers[0]}
		}
	}
	return p
}

func (p *player) show(what, name string) string {
	r, ok := p.Get("m")
	switch {
	case what == "log": // since the last time
		defer p.log.Reset()
		return strings.TrimSpace(p.log.String())
	case what == "traffic":
		return p.host.split()
	case what == "kept":
		return strconv.Itoa(len(p.host.kept))
	case !ok:
		return "none"
	}
	switch what {
	case "state":
		return fmt.Sprintf("%v in stage %d of %v, %v", r.State, r.Stage, r.Stages, r.Report.Verdict)
	case "check":
		c := named(r.Report, name)
		return fmt.Sprintf("%v: %s", c.Verdict, c.Reason)
	case "episodes":
		text := fmt.Sprintf("baseline %+v\ncandidate %+v\nleft out", r.Report.BaselineEpisodes, r.Report.CandidateEpisodes)
		var all []string
		for _, x := range r.Report.Excluded {
			all = append(all, fmt.Sprintf(" %s %d and %d", x.Reason, x.Baseline, x.Candidate))
		}
		return text + strings.Join(all, ",")
	case "summary":
		return r.Report.Summary
	case "outcome":
		o := r.Report.Metric("outcome")
		return fmt.Sprintf("counts %d and %d, the candidate's is %s", o.BaselineCount, o.CandidateCount, shown(o.Candidate))
	case "history":
		all := []string{fmt.Sprint(len(r.History.Points), " points")}
		for _, i := range []int{0, len(r.History.Points) - 1} {
			if i >= 0 && i < len(r.History.Points) {
				at := r.History.Points[i]
				all = append(all, fmt.Sprintf("%d and %d: from %.2f to %.2f", at.Baseline, at.Candidate, at.Low, at.High))
			}
		}
		for _, m := range r.History.Moments {
			all = append(all, fmt.Sprintf("%d and %d: %v, step %v to %v %%", m.Baseline, m.Candidate, m.Verdict, m.Step,
				m.Percent))
		}
		return strings.Join(all, "\n")
	}
	return "no event"
}

func shown(x *float64) string {
	if x == nil {
		return "not known"
	}
	return strconv.FormatFloat(math.Round(*x*1e4)/1e4, 'g', -1, 64)
}

// brief shortens lines of the log: of the checks it leaves the verdicts.
func brief(_ []string, a slog.Attr) slog.Attr {
	switch a.Key {
	case slog.TimeKey, slog.MessageKey, "model", "baseline", "candidate", "reason":
		return slog.Attr{}
	case "cause":
		return a
	}
	word, _, _ := strings.Cut(a.Value.String(), ": ")
	return slog.String(a.Key, word)
}

func TestScripts(t *testing.T) {
	for _, name := range []string{"stages", "restarts", "episodes"} {
		t.Run(name, func(t *testing.T) {
			script.Play(t, "testdata/"+name+".txt", func(t *testing.T) func(string) string {
				f := newFleet(t, nil)
				f.config.Logger = slog.New(slog.NewTextHandler(f.log, &slog.HandlerOptions{ReplaceAttr: brief}))
				return (&player{fleet: f, t: t}).event
			})
		})
	}
}
