package config

import (
	"net"
	"net/netip"
	"net/url"
	"strings"
)

// listener is an address that the server listens on, and its key.
type listener struct{ key, address string }

// listeners returns all addresses in a fixed order; "" where one is disabled.
func (s *Server) listeners() []listener {
	return []listener{{"listen", s.Listen}, {"http", s.HTTP}, {"admin-listen", s.AdminListen}}
}

// TLS reports whether every address speaks TLS.
func (s *Server) TLS() bool { return s.TLSCert != "" || s.TLSSPIFFESocket != "" || s.TLSDev }

// asksCallers reports whether callers are asked for a certificate, which needs CAs to verify it.
func (s *Server) asksCallers() bool {
	return s.TLSClientCA != "" || s.TLSSPIFFESocket != "" || s.TLSDev
}

// Identified reports whether every caller must show a certificate. The HTTP address makes an exception for health.
func (s *Server) Identified() bool { return s.asksCallers() && s.TLSClientAuth == ClientAuthRequire }

// Beyond returns the addresses that other machines reach, by key.
func (s *Server) Beyond() map[string]string {
	addresses := map[string]string{}
	for _, l := range s.listeners() {
		// An address that does not parse is reported as that.
		if _, _, err := net.SplitHostPort(l.address); err == nil && !Local(l.address) {
			addresses[l.key] = l.address
		}
	}
	return addresses
}

// Open returns the addresses beyond this machine that serve any caller, by key, and why. There is none if callers must
// show a certificate, or if there is an access file and TLS, so that tokens are not sent in the clear.
func (s *Server) Open() (addresses map[string]string, why string) {
	if why, _ = s.opened(); why == "" {
		return nil, ""
	}
	return s.Beyond(), why
}

// opened returns why callers of every address are served without an identity, and what changes that; "": they are not.
func (s *Server) opened() (why, remedy string) {
	switch {
	case s.Identified(), s.Access != "" && s.TLS():
		return "", ""
	case s.Access != "":
		return "tokens would travel in the clear, because there is no TLS",
			"serve TLS with tls-cert and tls-key (docs/how-to/tls.md)"
	case s.asksCallers():
		return "callers need no identity, because tls-client-auth is optional",
			"set tls-client-auth to require, or access (docs/how-to/access.md)"
	case s.TLS():
		return "callers need no identity", "set tls-client-ca (docs/how-to/tls.md) or access (docs/how-to/access.md)"
	}
	return "callers need no identity", "serve TLS with tls-cert, tls-key and tls-client-ca (docs/how-to/tls.md)"
}

// checkDoors finds open addresses that the operator has not allowed by insecure.
func (s *Server) checkDoors(faults *Faults) {
	if s.Insecure {
		return
	}
	open, why := s.Open()
	_, remedy := s.opened()
	for _, l := range s.listeners() {
		if address, is := open[l.key]; is {
			faults.Addf(l.key, "%s is reached from other machines, and %s; %s, listen on 127.0.0.1 or unix:/PATH, or set "+
				"insecure to serve all callers", address, why, remedy)
		}
	}
}

// checkTLS finds settings of TLS that contradict each other. The files are read later.
func (s *Server) checkTLS(faults *Faults) {
	if (s.TLSCert == "") != (s.TLSKey == "") {
		set, missing := "tls-cert", "tls-key"
		if s.TLSCert == "" {
			set, missing = missing, set
		}
		faults.Addf(set, "set without %s; a certificate needs its key: set both", missing)
	}
	var ways []string
	for _, way := range []struct {
		key string
		set bool
	}{
		{"tls-cert", s.TLSCert != "" || s.TLSKey != ""},
		{"tls-spiffe-socket", s.TLSSPIFFESocket != ""},
		{"tls-dev", s.TLSDev},
	} {
		if way.set {
			ways = append(ways, way.key)
		}
	}
	if len(ways) > 1 {
		faults.Addf(ways[1], "set beside %s; the certificates come from one place: keep one of them", ways[0])
	}
	if s.TLSClientCA != "" && s.TLSCert == "" {
		faults.Addf("tls-client-ca", "set without tls-cert and tls-key; without TLS nobody shows a certificate, and with "+
			"tls-spiffe-socket or tls-dev the CAs come from there")
	}
	if at := s.TLSSPIFFESocket; at != "" {
		if u, err := url.Parse(at); err != nil || u.Scheme != "unix" || u.Path == "" || u.Host != "" {
			faults.Addf("tls-spiffe-socket", "expected an address such as unix:///run/spire/agent.sock, found %q", at)
		}
	}
}

// checkWeb checks the names and origins by which the HTTP address tells its own pages and callers from others. An
// origin must have the exact form in which browsers send it.
func checkWeb(faults *Faults, hosts, origins []string) {
	for _, h := range hosts {
		_, err := netip.ParseAddr(strings.Trim(h, "[]"))
		if h == "" || err != nil && strings.ContainsAny(h, ":/ *") {
			faults.Addf("http-hosts", "expected a name without a port, such as weft.example, found %q", h)
		}
	}
	for _, o := range origins {
		if u, err := url.Parse(o); err != nil || u.Host == "" || u.Scheme+"://"+u.Host != o {
			faults.Addf("http-origins", "expected a scheme, a host and maybe a port, such as https://grafana.example, "+
				"found %q", o)
		}
	}
}
