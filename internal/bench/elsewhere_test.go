package bench

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// callsElsewhere is the first argument that makes the test program the callers of a server in another process.
const callsElsewhere = "call-a-server"

// elsewhere has 64 callers in a process of their own make n calls of a server, all with the same message, so that the
// processor time of this process is the server's.
func elsewhere(b *testing.B, conn *grpc.ClientConn, method string, message []byte, n int) {
	b.Helper()
	program, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.CommandContext(b.Context(), program, callsElsewhere, conn.Target(), method, strconv.Itoa(n))
	cmd.Stderr = os.Stderr
	cmd.Stdin = bytes.NewReader(message)
	if err := cmd.Run(); err != nil {
		b.Fatal(err)
	}
}

// callElsewhere is that process.
func callElsewhere(target, method, number string) error {
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return err
	}
	message, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	var left atomic.Int64
	left.Store(n)
	var group errgroup.Group
	for range 64 {
		group.Go(func() error {
			for left.Add(-1) >= 0 {
				var length int
				if err := conn.Invoke(context.Background(), method, message, &length, grpc.ForceCodecV2(plain{})); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}
