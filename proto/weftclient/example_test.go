package weftclient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/weftserve/weft/proto/weftclient"
	"github.com/weftserve/weft/server"
)

// start starts a server whose model policy answers a row of four numbers with the first two, and with the sum of all.
func start() (address string, stop func()) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	return listener.Addr().String(), newHouse(nil).serve(listener, server.Config{})
}

func Example() {
	address, stop := start()
	defer stop()

	client, err := weftclient.New(address)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	answer, err := client.Predict(ctx, &weftclient.Request{
		Model:  weftclient.Model("policy"),
		Inputs: weftclient.Tensors{"observation": weftclient.FromSlice([]float32{1, 2, 3, 4, 5, 6, 7, 8}, 2, 4)},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	action, err := weftclient.Values[float32](answer.Outputs["action"])
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(action, answer.Outputs["action"].GetShape(), "by version", answer.Version)
	// Output: [1 2 5 6] [2 2] by version 2
}

func ExampleError() {
	address, stop := start()
	defer stop()
	client, err := weftclient.New(address)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	_, err = client.Predict(context.Background(), &weftclient.Request{Model: weftclient.Model("polcy")})
	e, ok := errors.AsType[*weftclient.Error](err)
	_, again := e.RetryAfter()
	fmt.Println(ok, e.Code == codes.NotFound, again)
	// Output: true true false
}

func ExampleClient_PredictStream() {
	address, stop := start()
	defer stop()
	client, err := weftclient.New(address)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	ctx := context.Background()
	stream, err := client.PredictStream(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	state, reward := []float32{1, 2, 3, 4}, 0.0
	var version int64
	for step := range 3 {
		err := stream.Send(&weftclient.StreamRequest{
			Request: weftclient.Request{
				Model: weftclient.Model("policy"), ID: strconv.Itoa(step), Episode: "robot-7",
				Inputs: weftclient.Tensors{"observation": weftclient.FromSlice(state, 1, 4)},
			},
			Timeout: 10 * time.Second, Supersede: true,
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		got, err := stream.Recv()
		if err != nil {
			fmt.Println(err)
			return
		}
		if got.Err != nil {
			continue // no answer in time: the robot keeps its action
		}
		action, err := weftclient.Values[float32](got.Answer.Outputs["action"])
		if err != nil {
			fmt.Println(err)
			return
		}
		state[0] += action[1]
		reward, version = reward+float64(state[0]), got.Answer.Version
	}
	if err := stream.CloseSend(); err != nil {
		fmt.Println(err)
		return
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		fmt.Println(err)
		return
	}

	_, err = client.ReportOutcome(ctx, &weftclient.Outcome{
		Model: weftclient.Version("policy", version), Episode: "robot-7", Reward: &reward,
	})
	fmt.Println(reward, err)
	// Output: 15 <nil>
}
