package certs

import (
	"crypto/tls"
	"errors"
	"strings"
)

// reasonClosed is the reason of callers that went away before the handshake ended.
const reasonClosed = "closed"

// reason is why a handshake failed.
type reason struct {
	name   string // a label of the metric
	sign   string // part of the text of the error: net/http hands over nothing else
	server string // what the operator can do
	client string // what the caller can do; empty: it does not learn of it
}

// reasons are searched in this order: the first whose sign is part of the error counts, so that a specific text stands
// before a general one. The texts are those of crypto/tls, crypto/x509 and go-spiffe; tests provoke each by a
// handshake.
var reasons = []reason{
	{
		"no_certificate", "client didn't provide a certificate",
		"have the caller show a certificate of a CA in tls-client-ca", "",
	},
	{
		"not_yet_valid", "is before", "check the clocks of both machines",
		"check the clocks of both machines",
	},
	{
		"expired", "certificate has expired", "have the caller renew its certificate",
		"the certificate of the server expired, or the clock of this machine is wrong",
	},
	{
		"unknown_ca", "signed by unknown authority",
		"add the CA of the caller to tls-client-ca, if it is to be trusted",
		"name the CA of the server with --tls-ca",
	},
	{
		"unknown_ca", "could not get X509 bundle", "federate with the trust domain of the caller, if it is to be trusted",
		"",
	},
	{"wrong_key", "invalid signature by the client certificate", "have the caller use the key of its certificate", ""},
	{"no_name", "names nobody", "issue the caller a certificate with a subject alternative name", ""},
	{"no_name", "no URI SAN", "issue the caller an X509-SVID", ""},
	{
		"wrong_usage", "incompatible key usage", "issue the caller a certificate for clients (clientAuth)",
		"the certificate of the server is not for servers (serverAuth)",
	},
	{
		"not_tls", "first record does not look like a TLS handshake", "have the caller speak TLS",
		"the server speaks no TLS: leave the flags of TLS out",
	},
	{"not_tls", "client sent an HTTP request to an HTTPS server", "have the caller use https://", ""},
	{"old_tls", "unsupported version", "have the caller speak TLS 1.3", ""},
	{"old_tls", "protocol version", "have the caller speak TLS 1.3", "this end speaks TLS 1.3 only, the other does not"},
	{"no_http2", "ALPN", "have the caller speak gRPC", "the port is none of gRPC: name another"},
	{"no_http2", "application protocol", "have the caller speak gRPC", "the port is none of gRPC: name another"},
	{
		"no_http2", "looked like an HTTP/1.1 header", "",
		"that is an address of HTTP: gRPC is at --listen (127.0.0.1:9000), AdminService at --admin-listen (127.0.0.1:9002)",
	},
	// What the other end says.
	{
		"refused_by_caller", "remote error: tls: bad certificate",
		"see the caller's log: it may use a name that the server's certificate lacks",
		"the server refuses the certificate of --tls-cert; its log says why",
	},
	{
		"refused_by_caller", "remote error: tls: unknown certificate authority",
		"have the caller trust the CA of the server's certificate",
		"the server does not trust the CA of --tls-cert: use a certificate of a CA in its tls-client-ca",
	},
	{
		"refused_by_caller", "remote error: tls: expired certificate", "renew the certificate of the server",
		"the certificate of --tls-cert expired: renew it",
	},
	{
		"refused_by_caller", "remote error: tls: certificate required", "",
		"the server wants a certificate: name one with --tls-cert and --tls-key",
	},
	{
		"refused_by_caller", "remote error: tls: error decrypting message", "",
		"--tls-key is not the key of --tls-cert",
	},
	{"refused_by_caller", "remote error: tls", "see the caller's log", "the log of the server says why"},
	{
		"wrong_name", "not valid for any names", "",
		"the certificate of the server has no subject alternative name: it must be issued again",
	},
	{
		"wrong_name", "certificate relies on legacy Common Name", "",
		"the certificate of the server has no subject alternative name: it must be issued again",
	},
	{
		"wrong_name", "certificate is valid for", "", "use one of those names, or give it with --tls-server-name",
	},
	{
		"wrong_name", "doesn't contain any IP SANs", "",
		"use a name of the certificate, or give it with --tls-server-name",
	},
	{"timeout", "timeout", "the caller did not go on with the handshake", ""},
	{"timeout", "deadline exceeded", "the caller did not go on with the handshake", ""},
	{
		reasonClosed, "EOF", "the caller went away",
		"the server hung up: it may speak TLS where this end does not (--tls, --tls-ca), or not speak gRPC",
	},
	{reasonClosed, "reset by peer", "the caller went away", "the server hung up: it may speak TLS (--tls, --tls-ca)"},
	{reasonClosed, "broken pipe", "the caller went away", ""},
}

// reasonOf returns the reason of an error, or "other" without advice.
func reasonOf(err error) reason {
	for _, r := range reasons {
		if strings.Contains(err.Error(), r.sign) {
			return r
		}
	}
	return reason{name: "other"}
}

// Advice returns what a caller can do about an error of a connection, or "" if that is not known. text is the message
// of gRPC's error. Errors of calls are not searched: a model may have any of these words in its message.
func Advice(text string) string {
	if !strings.Contains(text, "connection error") && !strings.Contains(text, "handshake failed") &&
		!strings.Contains(text, "tls: ") && !strings.Contains(text, "server preface") {
		return ""
	}
	return reasonOf(errors.New(text)).client
}

// subjectOf names the certificate that a handshake failed for, empty if there was none.
func subjectOf(err error) string {
	failed, is := errors.AsType[*tls.CertificateVerificationError](err)
	if !is || len(failed.UnverifiedCertificates) == 0 {
		return ""
	}
	return subject(failed.UnverifiedCertificates[0])
}
