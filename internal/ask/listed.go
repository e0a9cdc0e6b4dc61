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
	// InLastMinute are all that were late or not answered, Forgotten those of them that are not remembered.
	InLastMinute uint32 `json:"in_last_minute"`
	Forgotten    uint32 `json:"forgotten"`
}

// printedRequest is one of them. Its version is 0 if it came to none.
type printedRequest struct {
	Number   uint32  `json:"number"`
	ID       string  `json:"id"`
	Model    string  `json:"model"`
	Version  int32   `json:"version"`
	End      string  `json:"end"`
	Reason   string  `json:"reason"`
	WaitedMS float64 `json:"waited_ms"`
	EndedMS  float64 `json:"ended_ms"`
	TargetMS float64 `json:"target_ms"`
}

// list prints the requests of the last minute that were late or not answered, the newest first.
func (o *Explain) list(ctx context.Context, models weftv1.ModelServiceClient, out io.Writer) error {
	var who peer.Peer
	answer, err := models.ListRequests(ctx, &weftv1.ListRequestsRequest{Model: o.Model, Limit: o.Limit}, grpc.Peer(&who))
	if err != nil {
		return o.wrong(err, &who)
	}
	p := &printedList{[]printedRequest{}, answer.GetInLastMinute(), answer.GetForgotten()}
	c := answer.GetRequests()
	for i, number := range c.GetNumber() {
		q := printedRequest{Number: number, ID: at(c.GetId(), i), Reason: at(c.GetReason(), i)}
		if place := int(at(c.GetVersion(), i)); place > 0 {
			v := at(answer.GetVersions(), place-1)
			q.Model, q.Version = v.GetModel(), v.GetVersion()
		}
		until := at(c.GetEndMs(), i)
		q.EndedMS = until - at(c.GetArrivalMs(), i)
		if start := at(c.GetStartMs(), i); start > 0 {
			until = start
		}
		q.WaitedMS, q.TargetMS = until-at(c.GetArrivalMs(), i), float64(at(c.GetTargetMs(), i))
		q.End = endName(weftv1.RequestEnd(at(c.GetEnd(), i)))
		p.Requests = append(p.Requests, q)
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
				cmp.Or(label(q.Model, q.Version), "-"), strings.TrimSpace(q.End+" "+q.Reason), q.EndedMS, q.WaitedMS, q.TargetMS,
				q.ID))
		}
		table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		_, err := io.WriteString(table, strings.Join(lines, ""))
		if err = errors.Join(err, table.Flush()); err != nil {
			return err
		}
		fmt.Fprintf(&b, "\n%d of %d of the last minute", len(p.Requests), p.InLastMinute)
		if p.Forgotten > 0 {
			fmt.Fprintf(&b, ", %d of which are no longer remembered", p.Forgotten)
		}
		fmt.Fprintf(&b, ". The story of the newest: weft explain %d\n", p.Requests[0].Number)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// at returns a member of a column, or nothing where there is none.
func at[T any](column []T, i int) T {
	if i < len(column) {
		return column[i]
	}
	var none T
	return none
}
