package status

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/predict"
)

func TestMessagesAreBoundedAndValid(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("x", 1<<20), strings.Repeat("é", 1<<16),
		"\xff\xfe", strings.Repeat("\x80a", 1<<16),
	} {
		err := &catalog.ModelError{Model: "policy", Version: 1, Err: errors.New(text)}
		st := Of(err, predict.Place{})
		if len(st.Message()) > predict.MaxText || !utf8.ValidString(st.Message()) {
			t.Errorf("message of %d bytes, valid %v", len(st.Message()), utf8.ValidString(st.Message()))
		}
		field := Of(&tensor.FieldError{Field: "f", Want: text, Got: text}, predict.Place{})
		if n := proto.Size(field.Proto()); n > 3*predict.MaxText {
			t.Errorf("a status of %d bytes", n)
		}
	}
}

// TestErrorsLeaveOutWhatIsNotKnown of where they happened.
func TestErrorsLeaveOutWhatIsNotKnown(t *testing.T) {
	for _, c := range []struct {
		at   predict.Place
		want map[string]string
	}{
		{predict.Place{}, map[string]string{}},
		{predict.Place{Model: "policy"}, map[string]string{"model": "policy"}},
		{predict.Place{Model: "policy", Version: 2}, map[string]string{"model": "policy", "version": "2"}},
		{
			predict.Place{Model: "policy", Version: 2, Slot: "a"},
			map[string]string{"model": "policy", "version": "2", "slot": "a"},
		},
	} {
		if diff := cmp.Diff(c.want, placeMetadata(&c.at, nil)); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", c.at, diff)
		}
	}
}
