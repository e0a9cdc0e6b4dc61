package app

import (
	"fmt"
	"io"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/server/access"
)

// Token makes a token, and writes it and the line of it for the tokens file. The line has its hash only, so that it is
// shown this once.
func Token(name string, out io.Writer) error {
	if err := access.CheckTokenName(name); err != nil {
		return config.Faults{{Key: "<name>", Message: err.Error()}}
	}
	token, line := access.NewToken(name)
	_, err := fmt.Fprintf(out, "token, for its owner only; it is not shown again:\n%s\n\nline for the tokens file, "+
		"optionally followed by \"expires 2030-01-31T00:00:00Z\":\n%s\n", token, line)
	return err
}
