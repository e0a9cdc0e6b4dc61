package config_test

import (
	"strings"
	"testing"

	"github.com/weftserve/weft/internal/config"
)

// TestDoors: addresses beyond this machine need identities, or a word of the operator.
func TestDoors(t *testing.T) {
	for _, c := range []struct {
		name   string
		adjust func(*config.Server)
		want   string // part of the fault; empty: there is none
	}{
		{"as by default", func(*config.Server) {}, ""},
		{"gRPC", func(s *config.Server) { s.Listen = "0.0.0.0:9000" }, "listen: 0.0.0.0:9000 is reached from other"},
		{"every interface", func(s *config.Server) { s.Listen = ":9000" }, "listen: :9000"},
		{"HTTP", func(s *config.Server) { s.HTTP = "[::]:9001" }, "http: [::]:9001"},
		{"admin", func(s *config.Server) { s.AdminListen = "10.0.0.1:9002" }, "admin-listen: 10.0.0.1:9002"},
		{"a name", func(s *config.Server) { s.Listen = "robot:9000" }, "set insecure"},
		{"localhost", func(s *config.Server) { s.Listen = "localhost:9000" }, ""},
		{"all of loopback", func(s *config.Server) { s.Listen, s.HTTP = "127.9.9.9:9000", "[::1]:9001" }, ""},
		{"mapped", func(s *config.Server) { s.Listen = "[::ffff:127.0.0.1]:9000" }, ""},
		{"a socket", func(s *config.Server) { s.Listen = "unix:/run/weft.sock" }, ""},
		{"insecure", func(s *config.Server) { s.Listen, s.Insecure = ":9000", true }, ""},
		{
			"TLS alone", func(s *config.Server) { s.Listen, s.TLSCert, s.TLSKey = ":9000", "c", "k" },
			"need no identity; set tls-client-ca (docs/how-to/tls.md) or access (docs/how-to/access.md), listen on",
		},
		{"mTLS", func(s *config.Server) { s.Listen, s.TLSCert, s.TLSKey, s.TLSClientCA = ":9000", "c", "k", "a" }, ""},
		{"optional", func(s *config.Server) {
			s.Listen, s.TLSCert, s.TLSKey, s.TLSClientCA, s.TLSClientAuth = ":9000", "c", "k", "a", "optional"
		}, "tls-client-auth is optional; set tls-client-auth to require, or access"},
		{"SPIFFE", func(s *config.Server) { s.Listen, s.TLSSPIFFESocket = ":9000", "unix:///run/a.sock" }, ""},
		{
			"tokens", func(s *config.Server) { s.Listen, s.Access = ":9000", "access.yaml" },
			"no TLS; serve TLS with tls-cert and tls-key",
		},
		{"tokens over TLS", func(s *config.Server) {
			s.Listen, s.Access, s.TLSCert, s.TLSKey = ":9000", "access.yaml", "c", "k"
		}, ""},
		{"a certificate alone", func(s *config.Server) { s.TLSCert = "c" }, "tls-cert: set without tls-key"},
		{"a key alone", func(s *config.Server) { s.TLSKey = "k" }, "tls-key: set without tls-cert"},
		{"two ways", func(s *config.Server) { s.TLSDev, s.TLSSPIFFESocket = true, "unix:///a" }, "beside tls-spiffe-socket"},
		{"a CA alone", func(s *config.Server) { s.TLSClientCA = "a" }, "without tls-cert"},
		{"no socket", func(s *config.Server) { s.TLSSPIFFESocket = "/run/a.sock" }, "unix:///run/spire"},
		{"a port alone", func(s *config.Server) { s.HTTP = "8501" }, "http: expected HOST:PORT"},
		{"a long path", func(s *config.Server) { s.Listen = "unix:/" + strings.Repeat("a", 103) }, "has 104 bytes"},
		{"a relative path", func(s *config.Server) { s.Listen = "unix:weft.sock" }, "absolute path"},
		{"one socket twice", func(s *config.Server) { s.Listen, s.HTTP = "unix:/a", "unix:/a" }, "is the address of listen"},
		{"a host with a port", func(s *config.Server) { s.HTTPHosts = []string{"weft:9001"} }, "without a port"},
		{"an IPv6 host", func(s *config.Server) { s.HTTPHosts = []string{"fd00::1", "weft.example"} }, ""},
		{"no origin", func(s *config.Server) { s.HTTPOrigins = []string{"grafana.example"} }, "http-origins"},
	} {
		s := config.DefaultServer()
		c.adjust(&s)
		faults := s.Check()
		if got := faults.Error(); len(faults) > 1 || c.want == "" && len(faults) > 0 || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestSocket: a path may follow unix: or unix://.
func TestSocket(t *testing.T) {
	for address, want := range map[string]string{
		"unix:/run/a": "/run/a", "unix:///run/a": "/run/a", "127.0.0.1:1": "", "unix:": "",
	} {
		if path, is := config.Socket(address); is != strings.HasPrefix(address, "unix:") || is && path != want {
			t.Errorf("%s: %q, %v", address, path, is)
		}
	}
}
