package app

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/weftserve/weft/internal/config"
)

// TestLogIsPrintable in either form, and the JSON still says what was logged.
func TestLogIsPrintable(t *testing.T) {
	const name = "a\x1b[31m\u202eb\x7f\u0085\U000e0041\n\u2028é"
	for format, want := range map[config.LogFormat]string{
		"json": `"model":"a\u001b[31m\u202eb\u007f\u0085\udb40\udc41\n\u2028é"}`,
		"text": `model="a\x1b[31m\u202eb\x7f\u0085\U000e0041\n\u2028é"`,
	} {
		var log logText
		settings := Settings{Server: config.Server{LogLevel: "info", LogFormat: format}}
		newLogger(&log, &settings, new(slog.LevelVar)).Info("seen", "model", name)
		lines := log.lines()
		if len(lines) != 1 || !strings.HasSuffix(lines[0], want) {
			t.Errorf("%s: %q, want one line that ends with %s", format, lines, want)
		}
		if format == "json" {
			var read struct{ Model string }
			if err := json.Unmarshal([]byte(lines[0]), &read); err != nil || read.Model != name {
				t.Errorf("%v: read %q", err, read.Model)
			}
		}
	}
}

// TestLogEscapesDEL where the handler of text leaves it as it is.
func TestLogEscapesDEL(t *testing.T) {
	var log logText
	settings := Settings{Server: config.Server{LogLevel: "info", LogFormat: "text"}}
	newLogger(&log, &settings, new(slog.LevelVar)).Info("seen", "model", "\x7f")
	if line := log.lines()[0]; !strings.HasSuffix(line, `model=\u007f`) {
		t.Errorf("%q", line)
	}
}
