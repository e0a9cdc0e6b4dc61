package ask

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"github.com/weftserve/weft/internal/config"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// Models is `weft models`.
type Models struct {
	Model   string          `arg:"" optional:"" help:"Only this model."`
	Timeout config.Duration `default:"10s" help:"How long to wait for an answer."`
	Printing
	Server
}

// Run lists models, their versions, and what leads requests to these.
func (c *Models) Run(ctx context.Context, out io.Writer) error {
	if c.Timeout <= 0 {
		return config.Faults{{Key: "--timeout", Message: fmt.Sprintf("expected a duration above 0, found %v", c.Timeout)}}
	}
	client, err := c.Dial()
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, time.Duration(c.Timeout))
	defer cancel()
	var who peer.Peer
	service, all := weftv1.NewModelServiceClient(client.Conn()), &weftv1.ListModelsResponse{}
	if c.Model == "" {
		all, err = service.ListModels(ctx, &weftv1.ListModelsRequest{}, grpc.Peer(&who))
	} else {
		var one *weftv1.GetModelResponse
		one, err = service.GetModel(ctx, &weftv1.GetModelRequest{Name: c.Model}, grpc.Peer(&who))
		all.Models = append(all.Models, one.GetModel())
	}
	if err != nil {
		return c.Wrong(err, &who, c.Timeout)
	}
	if c.JSON {
		return c.print(out, all, "")
	}
	rows := [][]string{{"MODEL", "VERSION", "STATE", "LABELS", "TRAFFIC", "NOTE"}}
	for _, m := range all.GetModels() {
		traffic, err := service.GetTraffic(ctx, &weftv1.GetTrafficRequest{Model: m.GetName()}, grpc.Peer(&who))
		if err != nil {
			return c.Wrong(err, &who, c.Timeout)
		}
		rows = append(rows, rowsOf(m, traffic)...)
	}
	return c.print(out, all, table(rows))
}

// rowsOf returns a row for each version of a model, or one that says why there is none.
func rowsOf(m *weftv1.Model, traffic *weftv1.GetTrafficResponse) (rows [][]string) {
	parts := partsOf(m, traffic)
	for i, v := range m.GetVersions() {
		var labels []string
		for _, name := range slices.Sorted(maps.Keys(m.GetLabels())) {
			if m.GetLabels()[name] == v.GetVersion() {
				labels = append(labels, name)
			}
		}
		rows = append(rows, []string{
			m.GetName(), strconv.FormatInt(v.GetVersion(), 10), stateName(v.GetState()),
			cmp.Or(strings.Join(labels, ", "), "-"), cmp.Or(parts[v.GetVersion()], "-"),
			noteOf(m, i),
		})
	}
	if len(rows) == 0 {
		rows = [][]string{{m.GetName(), "-", "-", "-", "-", cmp.Or(m.GetFailure(), "no version is loaded")}}
	}
	return rows
}

// noteOf says what is wrong with a version of a model, what it is for or made of if it is a step or a pipeline, and
// what the server keeps for it; the first one that keeps some says how much it is for all.
func noteOf(m *weftv1.Model, at int) string {
	v, keeps := m.GetVersions()[at], func(v *weftv1.ModelVersion) bool { return len(v.GetKeptInputs()) > 0 }
	notes := []string{cmp.Or(v.GetFailure(), v.GetStalled(), v.GetScarcity()), stepsOf(v)}
	if v.GetStepOnly() {
		notes = append(notes, "a step of pipelines only: answers requests that name it")
	}
	if keeps(v) {
		var kept []string
		for _, in := range v.GetKeptInputs() {
			kept = append(kept, in.GetInput())
		}
		note := "keeps " + strings.Join(kept, ", ") + " of episodes"
		if n := m.GetLiveEpisodes(); n > 0 && slices.IndexFunc(m.GetVersions(), keeps) == at {
			note += fmt.Sprintf(": %s, %v", count(int32(n), "episode"), config.Size(m.GetStateBytes()))
		}
		notes = append(notes, note)
	}
	return strings.Join(slices.DeleteFunc(notes, func(s string) bool { return s == "" }), "; ")
}

// stepsOf says what a pipeline is made of; "": it is none.
func stepsOf(v *weftv1.ModelVersion) string {
	var steps []string
	for _, s := range v.GetSteps() {
		text := fmt.Sprintf("%s: %s/%d", s.GetName(), s.GetModel(), s.GetVersion())
		if s.GetRepeat() > 1 {
			text += fmt.Sprintf(" %d times", s.GetRepeat())
		}
		if s.GetCondition() != "" {
			text += " where " + s.GetCondition()
		}
		steps = append(steps, text)
	}
	text := strings.Join(steps, ", then ")
	if len(steps) > 0 && v.GetSteps()[0].GetSeparate() {
		text += ", each by itself"
	}
	return text
}

func stateName(s weftv1.VersionState) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "VERSION_STATE_"))
}

// partsOf says which part of the traffic each version has. Without a split the newest has all of it that is ready and
// was not rolled back.
func partsOf(m *weftv1.Model, traffic *weftv1.GetTrafficResponse) map[int64]string {
	parts, sum := map[int64]string{}, sumOf(traffic.GetTraffic())
	add := func(version int64, format string, part float64) {
		text := fmt.Sprintf(format, part)
		if parts[version] != "" {
			text = parts[version] + ", " + text
		}
		parts[version] = text
	}
	for _, s := range traffic.GetTraffic().GetSplit() {
		add(s.GetVersion(), "%.3g %%", 100*s.GetWeight()/sum)
	}
	if newest := newestServing(m, traffic); newest > 0 && sum == 0 {
		add(newest, "%.3g %%", 100)
	}
	for _, s := range traffic.GetTraffic().GetShadow() {
		add(s.GetVersion(), "shadow %.3g %%", 100*s.GetSample())
	}
	return parts
}

func sumOf(t *weftv1.Traffic) (sum float64) {
	for _, s := range t.GetSplit() {
		sum += s.GetWeight()
	}
	return sum
}

// newestServing returns the version that answers where there is no split; 0: none.
func newestServing(m *weftv1.Model, traffic *weftv1.GetTrafficResponse) int64 {
	for _, v := range slices.Backward(m.GetVersions()) {
		if v.GetState() == weftv1.VersionState_VERSION_STATE_READY && !v.GetStepOnly() &&
			!slices.ContainsFunc(traffic.GetRolledBack(), func(r *weftv1.RolledBackVersion) bool {
				return r.GetVersion() == v.GetVersion()
			}) {
			return v.GetVersion()
		}
	}
	return 0
}

// table aligns rows of cells.
func table(rows [][]string) string {
	var b, lines strings.Builder
	aligned := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		// A line break, as failures may have, would begin a row. All is written to memory, which has no errors.
		_, _ = io.WriteString(aligned, strings.ReplaceAll(strings.Join(row, "\t"), "\n", " ")+"\n")
	}
	_ = aligned.Flush()
	for line := range strings.Lines(b.String()) {
		lines.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return lines.String()
}

// Traffic is `weft traffic`.
type Traffic struct {
	Model    string   `arg:"" help:"Name of the model."`
	Split    []string `arg:"" optional:"" placeholder:"VERSION=WEIGHT" help:"Versions with their weights, such as 2=90 3=10, or SLOT:VERSION=WEIGHT. Without a split, --shadow and --clear, the command shows the traffic."`
	Shadow   []string `placeholder:"VERSION=PERCENT" help:"Copy this percentage of the episodes or requests to a version as a shadow; 0 stops it. Other shadows stay."`
	Clear    bool     `help:"Remove the split and the shadows; the newest ready version that was not rolled back answers, and running episodes stay."`
	Revision uint64   `placeholder:"N" help:"Change the traffic only if it has this revision."`
	Printing
	Admin
}

// Help says what else there is to know.
func (*Traffic) Help() string {
	return "Weft assigns episodes to slots by the slots' names. A split without names keeps the present name of the " +
		"version's slot; a new slot of version 3 is named v3."
}

// Run shows or sets the traffic.
func (c *Traffic) Run(ctx context.Context, out io.Writer) error {
	if c.Clear && len(c.Split)+len(c.Shadow) > 0 {
		return config.Faults{{Key: "--clear", Message: "expected either --clear or what the traffic is to be, found both"}}
	}
	return c.Call(ctx, func(ctx context.Context, conn *grpc.ClientConn) error {
		now, err := weftv1.NewModelServiceClient(conn).GetTraffic(ctx, &weftv1.GetTrafficRequest{Model: c.Model})
		if err != nil {
			return err
		}
		if !c.Clear && len(c.Split)+len(c.Shadow) == 0 {
			return c.print(out, now, c.text(now.GetTraffic(), now))
		}
		wanted, err := c.change(now.GetTraffic())
		if err != nil {
			return err
		}
		answer, err := weftv1.NewAdminServiceClient(conn).SetTraffic(ctx,
			&weftv1.SetTrafficRequest{Model: c.Model, Traffic: wanted})
		if err != nil {
			return err
		}
		return c.print(out, answer, c.text(answer.GetTraffic(), nil))
	})
}

// change returns the traffic that is asked for, as a change of the present one.
func (c *Traffic) change(now *weftv1.Traffic) (*weftv1.Traffic, error) {
	wanted := &weftv1.Traffic{Revision: cmp.Or(c.Revision, now.GetRevision())}
	if c.Clear {
		return wanted, nil
	}
	var faults config.Faults
	wanted.Split, wanted.Shadow = now.GetSplit(), now.GetShadow()
	if len(c.Split) > 0 {
		wanted.Split = nil
	}
	for _, text := range c.Split {
		slot, rest, named := strings.Cut(text, ":")
		if !named {
			slot, rest = "", text
		}
		version, weight, err := numbers(rest)
		if err != nil {
			faults.Addf(text, "expected VERSION=WEIGHT, such as 2=90, or SLOT:VERSION=WEIGHT")
			continue
		}
		at := slices.IndexFunc(now.GetSplit(), func(s *weftv1.TrafficSlot) bool { return s.GetVersion() == version })
		if at >= 0 {
			slot = cmp.Or(slot, now.GetSplit()[at].GetSlot())
		}
		twice := func(s *weftv1.TrafficSlot) bool { return s.GetVersion() == version }
		if !named && slices.ContainsFunc(wanted.GetSplit(), twice) {
			faults.Addf(text, "version %d has a weight already", version)
		}
		wanted.Split = append(wanted.Split, &weftv1.TrafficSlot{
			Slot: cmp.Or(slot, fmt.Sprint("v", version)), Version: version, Weight: weight,
		})
	}
	for _, text := range c.Shadow {
		version, percent, err := numbers(text)
		if err != nil {
			faults.Addf("--shadow "+text, "expected VERSION=PERCENT, such as 4=100")
			continue
		}
		if !(percent >= 0 && percent <= 100) { // nor NaN
			faults.Addf("--shadow "+text, "expected a percentage from 0 to 100")
			continue
		}
		of := func(s *weftv1.TrafficShadow) bool { return s.GetVersion() == version }
		shadow := &weftv1.TrafficShadow{Version: version}
		if at := slices.IndexFunc(wanted.GetShadow(), of); at >= 0 {
			shadow = wanted.GetShadow()[at] // with its unit and its tolerances
		}
		if wanted.Shadow = slices.DeleteFunc(wanted.GetShadow(), of); percent != 0 {
			shadow.Sample = percent / 100
			wanted.Shadow = append(wanted.Shadow, shadow)
		}
	}
	return wanted, faults.Err()
}

// numbers reads VERSION=NUMBER, or VERSION=NUMBER%.
func numbers(text string) (version int64, number float64, _ error) {
	left, right, _ := strings.Cut(text, "=")
	version, err := strconv.ParseInt(left, 10, 64)
	number, wrong := strconv.ParseFloat(strings.TrimSuffix(right, "%"), 64)
	return version, number, errors.Join(err, wrong)
}

// text shows traffic; with what else was found about it, if that is not nil.
func (c *Traffic) text(t *weftv1.Traffic, found *weftv1.GetTrafficResponse) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: revision %d, source %s", c.Model, t.GetRevision(), t.GetSource())
	if by := found.GetDecidedBy(); by != "" && by != t.GetSource() {
		b.WriteString(", by " + by)
	}
	if at := found.GetDecidedAt(); at != nil {
		b.WriteString(", at " + at.AsTime().Local().Format(time.DateTime))
	}
	b.WriteString("\n")
	if waits := found.GetWaitsFor(); len(waits) > 0 {
		fmt.Fprintf(&b, "the traffic of model.yaml waits for versions %v\n", waits)
	}
	for _, r := range found.GetRolledBack() {
		fmt.Fprintf(&b, "version %d was rolled back by %s: %s\n", r.GetVersion(), r.GetBy(), r.GetReason())
	}
	if len(t.GetSplit())+len(t.GetShadow()) == 0 {
		b.WriteString("the newest version that is ready answers\n")
		return b.String()
	}
	rows, sum := [][]string{{"SLOT", "VERSION", "WEIGHT", "PART"}}, sumOf(t)
	for _, s := range t.GetSplit() {
		rows = append(rows, []string{
			s.GetSlot(), strconv.FormatInt(s.GetVersion(), 10), fmt.Sprint(s.GetWeight()),
			fmt.Sprintf("%.3g %%", 100*s.GetWeight()/sum),
		})
	}
	for _, s := range t.GetShadow() {
		rows = append(rows, []string{
			"(shadow)", strconv.FormatInt(s.GetVersion(), 10), "-", fmt.Sprintf("%.3g %%", 100*s.GetSample()),
		})
	}
	return b.String() + table(rows)
}
