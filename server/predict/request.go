package predict

import (
	"cmp"
	"fmt"
	"iter"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/routing"
	"github.com/weftserve/weft/sharedsched"
)

// MaxIDBytes bounds the ids of requests and episodes: they are repeated, compared and kept. A UUID has 36.
const MaxIDBytes = 256

// Request is one request for a prediction. A handler fills it and must not change it any more.
type Request struct {
	// Model is the name of the model that is asked for, and Choice the version of it.
	Model  string
	Choice routing.Choice
	// ID is the caller's own name for the request; "": it has none.
	ID string
	// Episode names the episode that the request belongs to; "": none. BeginEpisode: it is the first request of it, and
	// EndOfEpisode: the last.
	Episode                    string
	BeginEpisode, EndOfEpisode bool
	// MayKeepState: callers who keep the state themselves may say BeginEpisode, too. It then begins nothing where the
	// request brings the whole state, and no settings say that the server keeps it.
	MayKeepState bool
	// Step numbers the requests of an episode, ascending, so that one may be sent again; 0: it has no number.
	Step uint64
	// StreamID is the stream that the request came on, comparable, and After is closed when the request of the episode
	// before it on that stream was answered; nil: there is none. AfterBegin: one of those begins the episode.
	StreamID   any
	After      <-chan struct{}
	AfterBegin bool
	// Arrived is when the request came, as far as is known; zero: just now.
	Arrived time.Time
	// Limit is the time after which the answer is worth nothing; zero leaves it to the model. See AnswerBy.
	Limit time.Time
	// Target is how soon the answer is wanted; zero leaves it to the model. An answer after its target is late, and is
	// still an answer.
	Target   time.Duration
	Priority sharedsched.Priority
	// Caller is who the request is charged to where the model's fairness is by identity; nil: nobody is known.
	Caller *catalog.Caller
	// Outputs names the outputs that are wanted; none: all of them.
	Outputs []string
	// TraceParent is the W3C traceparent that came with the request itself; "": that of its call counts.
	TraceParent string
	// Stream: the request came on a stream.
	Stream bool
	// Fault is an error that the handler found in the message itself, whatever the model; the request is refused with it,
	// as the caller's mistake. Nil: none. It is not the fault of a model, which isFault tells.
	Fault error
	// Inputs is how many inputs came. Codec reads them and writes the answer.
	Inputs int
	Codec  Codec
	// Message is the request in its protocol's form, for a recorder that knows it, which copies what it keeps. It may be
	// nil.
	Message any

	admitted bool  // the Gate counts it
	trace    Trace // nil: it is not traced
	mostRows int   // that the version takes, which it is decoded for; 0: any number
}

// Codec reads the inputs of one request and writes its answer. It is called by one goroutine at a time. Its results may
// alias the message, which must not change until Predict of the pipeline has returned.
type Codec interface {
	// Names returns the names of the inputs that came, each once. It is asked where something is wrong with them,
	// and where more came than the model must have.
	Names() iter.Seq[string]
	// Decode reads the input that the signature describes so. The error is a *tensor.FieldError whose field is the part
	// of the input, "" for all of it; also if none of that name came. A codec asks Elements about the shape, before it
	// allocates anything for it; whether the data fit the shape is checked by the pipeline. It may be called again, for
	// another version, if the first stops being ready.
	Decode(input *tensor.Spec) (tensor.Tensor, error)
	// Encode writes the answer. It fails if the protocol cannot carry it, such as one that is too large.
	Encode(result *Result) error
}

// OutputChecker is a Codec that may refuse an output before anything is executed.
type OutputChecker interface {
	// CheckOutput looks at wanted output i of the request, as the signature has it, of a request of so many rows. The
	// error is a *tensor.FieldError.
	CheckOutput(i int, output *tensor.Spec, rows int) error
}

// Unnaming is a Codec whose request may have one input that it gives no name, for a model that must have one.
type Unnaming interface {
	// Unnamed reports whether it has. Decode then takes it for the input of any name.
	Unnamed() bool
}

// unnamed reports whether the request has one input without a name.
func (r *Request) unnamed() bool {
	codec, may := r.Codec.(Unnaming)
	return may && codec.Unnamed()
}

// caller returns the name of who the request is charged to, "" if nobody is known.
func (r *Request) caller() string {
	if r.Caller == nil {
		return ""
	}
	return r.Caller.Name
}

// check refuses a request that is wrong for every model. The error is a *tensor.FieldError, or that of Request.Fault.
func (r *Request) check() error {
	return cmp.Or(CheckID("request_id", r.ID), CheckID("episode_id", r.Episode), r.Fault, CheckModel(r.Model))
}

// CheckID refuses an id that is too long. The error is a *tensor.FieldError.
func CheckID(field, id string) error {
	if len(id) <= MaxIDBytes {
		return nil
	}
	return &tensor.FieldError{
		Field: field, Want: fmt.Sprintf("at most %d bytes", MaxIDBytes), Got: fmt.Sprintf("%d bytes", len(id)),
	}
}

// CheckModel refuses a request that names no model. The error is a *tensor.FieldError.
func CheckModel(name string) error {
	if name == "" {
		return &tensor.FieldError{Field: "model.name", Want: "the name of a model", Got: "none"}
	}
	return nil
}

// A part of the time that a client gives is reserved for the answer's way to it: encoding, the network, and the answers
// of the same batch that go first.
const (
	deliveryShare = 50 // one fiftieth
	maxDelivery   = 10 * time.Millisecond
)

// AnswerBy returns when an answer must be there to reach its client by the deadline: a fiftieth of the time is
// reserved, and 10 ms at most. This becomes Request.Limit, after which an answer is worth nothing; it has nothing to do
// with the target, after which an answer is late.
func AnswerBy(now, deadline time.Time) time.Time {
	return deadline.Add(-min(max(0, deadline.Sub(now)/deliveryShare), maxDelivery))
}

// MaxText bounds, in bytes, how much of a text from outside is repeated, and the text of an error: with gRPC that
// travels twice in one header block, escaped, and some clients refuse more than 8 KiB of those.
const MaxText = 1024

// Clip makes text valid UTF-8, which messages must be, and cuts it to MaxText bytes.
func Clip(text string) string {
	const cut = "..."
	text = strings.ToValidUTF8(text, "�")
	if len(text) <= MaxText {
		return text
	}
	end := MaxText - len(cut)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + cut
}
