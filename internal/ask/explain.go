package ask

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weftserve/weft/internal/config"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// Explain are the flags of `weft explain`.
type Explain struct {
	Request string          `arg:"" optional:"" help:"A request id, an episode (its latest request), or a number such as '#1234'."`
	Model   string          `placeholder:"NAME" help:"Only requests of this model."`
	Limit   uint32          `default:"20" help:"Most requests to list, newest first; 0: 100."`
	JSON    bool            `name:"json" help:"Print JSON."`
	Timeout config.Duration `default:"10s" help:"How long to wait for an answer."`

	Server
}

// maxListed is the most that a server lists. It refuses to list more, but only the error here can name the flag.
const maxListed = 1000

// check finds all mistakes in the flags, before a server is asked.
func (o *Explain) check() error {
	var faults config.Faults
	if o.Timeout <= 0 {
		faults.Addf("--timeout", "expected a duration above 0, found %v", o.Timeout)
	}
	if o.Limit > maxListed {
		faults.Addf("--limit", "expected at most %d, found %d", maxListed, o.Limit)
	}
	// A request names its model by itself; a second name could only contradict it.
	if o.Model != "" && o.Request != "" {
		faults.Addf("--model", "a request needs none; expected either a request or --model")
	}
	return faults.Err()
}

// Run explains a request, or lists the ones that were late or not answered. What is wrong with the command line is a
// config.Faults.
func (o *Explain) Run(ctx context.Context, out io.Writer) error {
	if err := o.check(); err != nil {
		return err
	}
	client, err := o.Dial()
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, time.Duration(o.Timeout))
	defer cancel()
	models := weftv1.NewModelServiceClient(client.Conn())
	if o.Request == "" {
		return o.list(ctx, models, out)
	}
	var who peer.Peer
	e, err := o.find(ctx, models, &who)
	switch {
	// The server remembers only some of the latest requests.
	case status.Code(err) == codes.NotFound:
		return fmt.Errorf("%w; `weft explain` without a request shows that list", o.Wrong(err, &who, o.Timeout))
	case err != nil:
		return o.Wrong(err, &who, o.Timeout)
	case o.JSON:
		return printJSON(out, e)
	}
	_, err = io.WriteString(out, strings.Join(e.GetStory(), "\n")+"\n")
	return err
}

// find asks for the request by its caller's name. Digits that no caller used as a name are the server's number of it,
// which needs no "#" here: a shell takes an unquoted "#" for a comment.
func (o *Explain) find(ctx context.Context, models weftv1.ModelServiceClient, who *peer.Peer) (
	*weftv1.Explanation, error,
) {
	names := []string{o.Request}
	if _, err := strconv.ParseUint(o.Request, 10, 32); err == nil {
		names = append(names, "#"+o.Request)
	}
	var last error
	for _, name := range names {
		answer, err := models.ExplainRequest(ctx, &weftv1.ExplainRequestRequest{Request: name}, grpc.Peer(who))
		if err == nil {
			return answer.GetExplanation(), nil
		}
		// Another error would be the same for the second name.
		if last = err; status.Code(err) != codes.NotFound {
			break
		}
	}
	return nil, last
}

// Label names a version for people, such as "walk v3". A request that no version was chosen for has version 0, and is
// named by its model.
func Label(model string, version int32) string {
	if version == 0 {
		return model
	}
	return fmt.Sprintf("%s v%d", model, version)
}

// endName says what became of a request, such as "refused".
func endName(end weftv1.RequestEnd) string {
	return strings.ToLower(strings.TrimPrefix(end.String(), "REQUEST_END_"))
}

// encode writes a value as a line of JSON in which "<", ">" and "&" stay as they are.
func encode(out io.Writer, v any) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}

// printJSON prints an explanation as JSON of weft.v1.Explanation, but its end is written as the list of requests has
// it. protojson inserts random blanks on purpose; without them the output is the same each time, and the end can be
// replaced.
func printJSON(out io.Writer, e *weftv1.Explanation) error {
	text, err := protojson.MarshalOptions{UseProtoNames: true, EmitDefaultValues: true}.Marshal(e)
	if err != nil {
		return err
	}
	var line bytes.Buffer
	if err := json.Compact(&line, text); err != nil {
		return err
	}
	const end = `"end":"%s"`
	_, err = fmt.Fprintln(out, strings.Replace(line.String(), fmt.Sprintf(end, e.GetEnd()),
		fmt.Sprintf(end, endName(e.GetEnd())), 1))
	return err
}
