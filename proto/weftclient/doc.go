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
// The first dimension of an input counts its rows. The element type of an input is that of the model. [Model] lets the
// server choose the version; [Version] and [Label] choose one.
//
// # Time
//
// The deadline of the context is the deadline of the request. After it the answer is worth nothing, so the server does
// not run requests that would be late. [Request.Target] is the latency target; it only sets the order of requests.
//
// # Errors
//
// Calls return errors of type *[Error], with the code, the message, and the server's reason, such as QUEUE_FULL.
// google.golang.org/grpc/status also reads them. If the server refuses a call for lack of capacity, the client sends it
// again after the delay that the server sets, until the call's deadline; see [WithAttempts]. Use [Error.RetryAfter] to
// retry yourself.
//
// # Closed loops
//
// For a control loop, open a [Stream] with [Client.PredictStream]. Its requests need no call of their own, and a new
// observation can replace an older one that still waits. [Client.ReportOutcome] tells the server how an episode went,
// so that it can compare versions.
//
// If the server keeps the state of a recurrent model, [Client.Episode] does the steps. Each step counts once, however
// often it is sent. With checkpoints an episode outlives the server.
package weftclient
