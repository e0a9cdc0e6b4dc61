// Package weftclient calls a Weft server from Go.
//
//	client, err := weftclient.New("127.0.0.1:9000")
//	if err != nil {
//		return err
//	}
//	defer client.Close()
//
//	ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond) // later the answer is worth nothing
//	defer cancel()
//	answer, err := client.Predict(ctx, &weftclient.Request{
//		Model:   weftclient.Model("cartpole"),
//		Inputs:  weftclient.Tensors{"observation": weftclient.FromSlice([]float32{0, 0.1, 0.05, -0.2}, 1, 4)},
//		Episode: "robot-7",
//	})
//	if err != nil {
//		return err
//	}
//	action, err := weftclient.Values[float32](answer.Outputs["action"])
//
// The first dimension of an input is that of its rows, and its element type is the model's. [Model] leaves the version
// to the server, [Version] and [Label] choose one.
//
// # Time
//
// The deadline of the context is the request's limit: after it the answer is worth nothing, and the server does not
// run what would be late. [Request.Target] says how soon the answer is wanted; it only orders requests.
//
// # Errors
//
// Errors of calls are of type *[Error]: the code, the message, and the server's reason, such as QUEUE_FULL.
// google.golang.org/grpc/status reads them, too. A call that the server refuses for lack of capacity is sent again when
// the server says so, within its deadline, see [WithAttempts]. [Error.RetryAfter] is for callers who do that
// themselves.
//
// # Closed loops
//
// A loop that controls something opens a [Stream] with [Client.PredictStream]. Its requests need no call of their own,
// and a new observation can take the place of an older one that still waits. How an episode went is told to the server
// by [Client.ReportOutcome], so that it can compare versions.
//
// Where the server keeps the state of a recurrent model, [Client.Episode] does the steps: each counts once, however
// often it is sent, and with checkpoints an episode outlives the server.
package weftclient
