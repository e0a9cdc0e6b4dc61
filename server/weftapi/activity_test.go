package weftapi_test

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/servertest"
)

// TestActivityRefuses: what cannot be asked of the activity is said by its field.
func TestActivityRefuses(t *testing.T) {
	h := servertest.New(t, server.Config{})
	for says, c := range map[string]struct {
		method string
		m      proto.Message
		code   codes.Code
	}{
		"": {weftv1.ModelService_GetHistory_FullMethodName, &weftv1.GetHistoryRequest{Model: "policy"}, codes.OK},
		"model: expected the name of a model": {
			weftv1.ModelService_GetHistory_FullMethodName, &weftv1.GetHistoryRequest{Version: 1}, codes.InvalidArgument,
		},
		`no model is named "polcy"`: {
			weftv1.ModelService_GetHistory_FullMethodName, &weftv1.GetHistoryRequest{Model: "polcy"}, codes.NotFound,
		},
		"limit: expected at most": {
			weftv1.ModelService_ListRequests_FullMethodName, &weftv1.ListRequestsRequest{Limit: 1 << 30}, codes.InvalidArgument,
		},
		"request: expected the caller's name for a request": {
			weftv1.ModelService_ExplainRequest_FullMethodName, &weftv1.ExplainRequestRequest{}, codes.InvalidArgument,
		},
		"no request": {
			weftv1.ModelService_ExplainRequest_FullMethodName, &weftv1.ExplainRequestRequest{Request: "x"}, codes.NotFound,
		},
	} {
		servertest.WantCode(t, h.Conn.Invoke(t.Context(), c.method, c.m, &emptypb.Empty{}), c.code, says)
	}
}
