package ask

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// printedList is a list of requests in JSON.
type printedList struct {
	Requests []printedRequest `json:"requests"`
	// InLastMinute counts those of all models, and Forgotten those of them that are not remembered. The requests may have
	// ended before that minute.
	InLastMinute uint32 `json:"in_last_minute"`
	Forgotten    uint32 `json:"forgotten"`
}

// printedRequest is one of them. Its version is 0 if none was chosen, and its target is 0 if it has none. Waited is the
// time until its execution began, ended the time until it ended.
type printedRequest struct {
	Number   uint32  `json:"number"`
	ID       string  `json:"id"`
	Episode  string  `json:"episode,omitempty"`
	Step     uint64  `json:"step,omitempty"`
	Model    string  `json:"model"`
	Version  int32   `json:"version"`
	End      string  `json:"end"`
	Reason   string  `json:"reason"`
	WaitedMS float64 `json:"waited_ms"`
	EndedMS  float64 `json:"ended_ms"`
	TargetMS float64 `json:"target_ms"`
	name     string
}

// list prints the latest requests that were late or not answered, the newest first.
func (o *Explain) list(ctx context.Context, models weftv1.ModelServiceClient, out io.Writer) error {
	var who peer.Peer
	answer, err := models.ListRequests(ctx, &weftv1.ListRequestsRequest{Model: o.Model, Limit: o.Limit}, grpc.Peer(&who))
	if err != nil {
		return o.Wrong(err, &who, o.Timeout)
	}
	p := &printedList{[]printedRequest{}, answer.GetInLastMinute(), answer.GetForgotten()}
	for _, r := range Requests(answer.GetRequests()) {
		// A request that came to no version has the place -1, and At then returns a nil message with empty names.
		v := At(answer.GetVersions(), r.Place)
		p.Requests = append(p.Requests, printedRequest{
			Number: r.Number, ID: r.ID, Episode: r.Episode, Step: r.Step, name: r.Name(),
			Model: v.GetModel(), Version: v.GetVersion(), End: endName(r.How), Reason: r.Reason,
			WaitedMS: r.Waited(), EndedMS: r.End - r.Arrival, TargetMS: r.Target,
		})
	}
	if o.JSON {
		return encode(out, p)
	}
	return p.text(out, o.Model)
}

// text prints the list for people.
func (p *printedList) text(out io.Writer, model string) error {
	var b strings.Builder
	if len(p.Requests) == 0 {
		of := ""
		if model != "" {
			of = " for " + model
		}
		fmt.Fprintf(&b, "No request%s of the last minute was late, and all were answered.\n", of)
	} else {
		lines := []string{"NUMBER\tFOR\tEND\tAFTER\tWAITED\tTARGET\tNAME\n"}
		for _, q := range p.Requests {
			lines = append(lines, fmt.Sprintf("#%d\t%s\t%s\t%.1f ms\t%.1f ms\t%.0f ms\t%s\n", q.Number,
				cmp.Or(Label(q.Model, q.Version), "-"), strings.TrimSpace(q.End+" "+q.Reason), q.EndedMS, q.WaitedMS, q.TargetMS,
				q.name))
		}
		// The table is written to memory, so that its errors are none of the output's.
		table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		_, err := io.WriteString(table, strings.Join(lines, ""))
		if err = errors.Join(err, table.Flush()); err != nil {
			return err
		}
		fmt.Fprintf(&b, "\nThese are the latest %d. In the last minute all models had %d", len(p.Requests), p.InLastMinute)
		if p.Forgotten > 0 {
			fmt.Fprintf(&b, ", and %d of them are no longer remembered", p.Forgotten)
		}
		fmt.Fprintf(&b, ". The story of the newest: weft explain %d\n", p.Requests[0].Number)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// Request is a request that ended, as a server lists it. Times are milliseconds since the server's run began.
type Request struct {
	Number uint32
	ID     string
	Place  int // of its version in the list beside it; -1: it came to none
	// Started is 0 where it was not executed.
	Arrival, Started, End float64
	Target                float64 // milliseconds after its arrival; 0: none
	How                   weftv1.RequestEnd
	Reason                string
	Episode               string
	Step                  uint64 // 0: it has no number
}

// Name returns what its caller calls it: its name, its episode with the step, or both.
func (r *Request) Name() string {
	step := r.Episode
	if step != "" && r.Step > 0 {
		step += fmt.Sprintf(" #%d", r.Step)
	}
	if r.ID != "" && step != "" {
		step = " (" + step + ")"
	}
	return r.ID + step
}

// Requests reads what a server has written column by column.
func Requests(c *weftv1.RequestColumns) []Request {
	all := make([]Request, 0, len(c.GetNumber()))
	for i, number := range c.GetNumber() {
		all = append(all, Request{
			Number: number, ID: At(c.GetId(), i), Place: int(At(c.GetVersion(), i)) - 1, Arrival: At(c.GetArrivalMs(), i),
			Started: At(c.GetStartMs(), i), End: At(c.GetEndMs(), i), Target: float64(At(c.GetTargetMs(), i)),
			How: weftv1.RequestEnd(At(c.GetEnd(), i)), Reason: At(c.GetReason(), i),
			Episode: At(c.GetEpisode(), i), Step: At(c.GetStep(), i),
		})
	}
	return all
}

// Until returns when its wait ended: at its first execution, or at its end if it was never executed.
func (r *Request) Until() float64 {
	if r.Started > 0 {
		return r.Started
	}
	return r.End
}

// Waited returns how long it waited, in milliseconds.
func (r *Request) Waited() float64 { return r.Until() - r.Arrival }

// Became says what became of it, such as "refused QUEUE_FULL".
func (r *Request) Became() string { return strings.TrimSpace(endName(r.How) + " " + r.Reason) }

// At returns a member of a column, or the zero value beyond its end: the columns that a server sends may differ in
// length.
func At[T any, N int | uint32](column []T, i N) T {
	if i >= 0 && int(i) < len(column) {
		return column[i]
	}
	var none T
	return none
}
