package transport

import (
	"cmp"
	"context"
	"net/http"
	"unicode/utf8"

	"google.golang.org/grpc/metadata"

	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/routing"
)

// The metadata of gRPC, and headers of HTTP, that tell of messages for proxies and hash rings, which see none. That of
// the table is of answers whose message has no place for it.
const (
	modelHeader   = "weft-model"
	episodeHeader = "weft-episode"
	TableHeader   = "weft-table"
)

// Headers are what came beside the messages of a call.
type Headers struct{ model, episode []string }

// headersOf returns those of a call of gRPC. It copies two values, and not all metadata.
func headersOf(ctx context.Context) Headers {
	return Headers{
		metadata.ValueFromIncomingContext(ctx, modelHeader), metadata.ValueFromIncomingContext(ctx, episodeHeader),
	}
}

// PageHeaders returns those of a request of HTTP.
func PageHeaders(h http.Header) Headers {
	return Headers{h.Values(modelHeader), h.Values(episodeHeader)}
}

// Beside takes in what came beside the message. It must be what the message says; else that is the request's Fault. A
// message without an episode gets it from there. One must name its model itself, by which access was decided.
func (x *Exchange) Beside(h Headers) {
	var model, episode error
	if x.Model != "" {
		_, model = agreed(modelHeader, h.model, x.Model)
	}
	x.Episode, episode = agreed(episodeHeader, h.episode, x.Episode)
	x.Fault = cmp.Or(x.Fault, model, episode)
}

// agreed returns what a message and the values of a header both say. Empty ones say nothing. The error is a
// *tensor.FieldError.
func agreed(header string, values []string, said string) (string, error) {
	for _, value := range values {
		var want string
		switch {
		case value == "" || value == said:
			continue
		case said != "":
			want = routing.Quote(said) + ", as the message has it or the header before, or nothing"
		case !utf8.ValidString(value):
			want = "UTF-8"
		default:
			said = value
			continue
		}
		return said, &tensor.FieldError{Field: "metadata " + header, Want: want, Got: routing.Quote(value)}
	}
	return said, nil
}
