package ask

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/weftserve/weft/internal/certs"
	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/proto/weftclient"
)

// Server is the flags by which a command finds a server.
type Server struct {
	Address string `default:"127.0.0.1:9000" aliases:"server" placeholder:"HOST:PORT" help:"The server's address, or unix:/PATH."`

	certs.Client `embed:"" group:"TLS"`
}

// Dial returns a client of the server. It connects with the first call, whose error names an address that does not
// answer.
func (s *Server) Dial() (*weftclient.Client, error) {
	dial, err := s.DialOptions(s.Address)
	if err != nil {
		return nil, err
	}
	client, err := weftclient.New(s.Address, weftclient.WithDialOptions(dial...),
		weftclient.WithMaxMessageBytes(math.MaxInt32))
	if err != nil {
		return nil, fmt.Errorf("--address %s: %w", s.Address, err)
	}
	return client, nil
}

// Wrong says what the user can do about the error of a call. timeout is what the user gave the call, or 0 if the user
// chose none. server is the peer of the call: without an address nobody answered, and the advice is about the
// connection.
func (s *Server) Wrong(err error, server *peer.Peer, timeout config.Duration) error {
	message := strings.TrimSpace(status.Convert(err).Message())
	switch {
	case server.Addr == nil:
		do := certs.Advice(message)
		if do == "" {
			do = "start one with `weft serve REPOSITORY`, or name the --listen address of one that runs"
		}
		return fmt.Errorf("no server answers at --address %s (%s); %s", s.Address, message, do)
	case status.Code(err) == codes.DeadlineExceeded && timeout > 0:
		message += fmt.Sprintf("; it had %v (--timeout)", timeout)
	// A server of Weft knows the call, unless it is older.
	case status.Code(err) == codes.Unimplemented && !strings.HasSuffix(message, "(--listen)"):
		message += "; it is older than this program, or no Weft: ask it with the program that it was started with"
	}
	return errors.New("the server at --address " + s.Address + ": " + message)
}
