package main

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/weftserve/weft/internal/hostile"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// gRPC gives these to header blocks that it finds malformed, before any code of the server sees the call, with a status
// that the rules of gRPC over HTTP/2 ask for. Nothing has failed inside the server.
var malformedHeader = []string{
	"malformed grpc-timeout: ",               // the time is no number with a unit
	"malformed binary metadata ",             // the value of a name that ends in -bin is not base64
	"Received a HEADERS frame with :method ", // it is not POST
	"num values of :authority: ",             // there are several, of it or of host
	"no host or :authority header present",   // there is neither
}

// sent is what was sent in a whole call.
type sent struct {
	what  string
	over  *protocol              // by which the request was made
	exact *weftv1.PredictRequest // the echo must answer this; nil: any answer will do
	loose bool                   // the server may reset its stream, for its header block or because its time is over
}

// String says what was sent, where a failure names it.
func (s *sent) String() string { return s.what }

const (
	statusOK        = "0"
	statusInternal  = "13"
	statusExhausted = "8"
)

// judge says what is wrong with an answer.
func judge(a *hostile.Answer) error {
	s := a.Note.(*sent)
	message, err := url.PathUnescape(a.Message)
	switch {
	case err != nil:
		return fmt.Errorf("%s: the message %q is not percent-encoded", s.what, a.Message)
	case a.Status == "" && !s.loose:
		return fmt.Errorf("%s: the call ended without a status (reset: %q)", s.what, a.Reset)
	case a.Status == statusInternal && !isMalformed(message):
		return fmt.Errorf("%s: INTERNAL: %s", s.what, message)
	case s.exact != nil && a.Status == statusOK && !s.over.echoed(s.exact, a.Data):
		return fmt.Errorf("%s: the echo of %v is wrong: %x", s.what, s.exact, a.Data)
	case s.exact != nil && a.Status != statusOK && a.Status != statusExhausted:
		return fmt.Errorf("%s: status %s for a sound request: %s", s.what, a.Status, message)
	}
	return nil
}

func isMalformed(message string) bool {
	for _, known := range malformedHeader {
		if strings.HasPrefix(message, known) {
			return true
		}
	}
	return false
}
