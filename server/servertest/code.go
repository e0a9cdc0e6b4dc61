package servertest

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// WantCode wants an error of a code whose message contains a text.
func WantCode(t *testing.T, err error, code codes.Code, message string) {
	t.Helper()
	if st := status.Convert(err); st.Code() != code || !strings.Contains(st.Message(), message) {
		t.Errorf("%v: %s\nwant %v: ...%s...", st.Code(), st.Message(), code, message)
	}
}
