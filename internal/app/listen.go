package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
)

// listen opens the address that a flag gives. The error names both.
func listen(ctx context.Context, flag, address string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		if refused, ok := errors.AsType[*os.SyscallError](err); ok {
			err = refused.Err
		}
		return nil, fmt.Errorf("cannot listen on %s: %w; choose another address with --%s", address, err, flag)
	}
	return l, nil
}
