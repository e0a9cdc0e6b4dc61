package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weftserve/weft/internal/certs"
	"github.com/weftserve/weft/internal/config"
)

// openCerts reads the certificates of the listeners, or makes them for --tls-dev, and follows their changes. It also
// warns of listeners that are open, because both follow from the same settings. Without TLS s.certs stays nil.
func (s *assembly) openCerts(ctx context.Context) (err error) {
	s.tellOpen()
	if !s.TLS() {
		return nil
	}
	files := certFiles(&s.Settings)
	if s.TLSDev {
		dir, err := devDir(s.StateDir)
		if err != nil {
			return err
		}
		if s.dev, err = certs.Develop(dir, time.Now()); err != nil {
			return err
		}
		files = s.dev.Files
	}
	s.certs, err = certs.Open(ctx, certs.Config{
		Files: files, SPIFFE: s.TLSSPIFFESocket, Optional: s.TLSClientAuth == config.ClientAuthOptional, Log: s.log,
	})
	if err != nil {
		return err
	}
	// Run follows changes of files. Close also ends the connection to SPIFFE's socket that Open has begun.
	part := untilStopped("certificates", s.certs.Run)
	stop := part.Stop
	part.Stop = func(ctx context.Context) error { return errors.Join(stop(ctx), s.certs.Close()) }
	s.group.Start(part)
	return nil
}

// certFiles returns the files as set; those of --tls-dev are others.
func certFiles(s *Settings) certs.Files {
	return certs.Files{Cert: s.TLSCert, Key: s.TLSKey, ClientCA: s.TLSClientCA}
}

// tellOpen warns of each address that other machines reach and that serves any caller. It can only be so by --insecure
// or by an access file that takes anonymous callers: Check and keepClosed refuse all else.
func (s *assembly) tellOpen() {
	effects := map[string]string{
		"listen":       "whoever reaches it can send requests to all models",
		"http":         "whoever reaches it can send requests to all models and read metrics",
		"admin-listen": "whoever reaches it can unload models and move traffic",
	}
	open, why := s.Open()
	if s.rules != nil && !s.Identified() && s.rules.anonymous() != "" {
		open, why = s.Beyond(), "callers who prove nothing are the identity "+s.rules.anonymous()
	}
	// A map has no order, and the log of two starts is to be the same.
	for _, key := range []string{"listen", "http", "admin-listen"} {
		if address, is := open[key]; is {
			s.log.Warn("OPEN TO THE NETWORK, as set by insecure", "event", "open_to_network", "setting", key,
				"address", address, "cause", why, "effect", effects[key],
				"remedy", "serve TLS with tls-client-ca, listen on loopback, or let nobody but your own tools reach it")
		}
	}
}

// credentials returns the transport credentials of a gRPC server. listener is its setting, for the log and the counts
// of failed handshakes.
func (s *assembly) credentials(listener string) credentials.TransportCredentials {
	if s.certs == nil {
		return insecure.NewCredentials()
	}
	return s.certs.Credentials(listener)
}

// devDir returns the directory for certificates for development: the state directory if the user named one, else that
// of the user, so that clients find them at the same place whatever is served.
func devDir(setting string) (string, error) {
	if setting != config.StateDirAuto && setting != config.StateDirNone && setting != "" {
		return setting, nil
	}
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "weft"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("--tls-dev: there is no home directory for the certificates (%w); name a directory with "+
			"--state-dir", err)
	}
	return filepath.Join(home, ".local", "state", "weft"), nil
}

// hereOf returns an address by which clients on this machine reach a listener. One that listens on 0.0.0.0 or on an
// address of a network becomes localhost, which the certificate names in any case.
func hereOf(address string) string {
	host, port, err := net.SplitHostPort(address)
	if ip, parsed := netip.ParseAddr(host); err == nil && parsed == nil && !ip.IsLoopback() {
		return net.JoinHostPort("localhost", port)
	}
	return address
}

// tellDev logs the commands that call a server whose certificates were made here. Clients need the paths, and a
// certificate of their own.
func (s *assembly) tellDev() {
	if s.dev == nil {
		return
	}
	d, at := s.dev, hereOf(addressOf(s.grpc))
	s.log.Info("certificates for development, not for production", "event", "dev_certificates",
		"ca", d.ClientCA, "cert", d.ClientCert, "key", d.ClientKey,
		"grpcurl", fmt.Sprintf("grpcurl -cacert %s -cert %s -key %s %s list", d.ClientCA, d.ClientCert, d.ClientKey, at),
		"bench", fmt.Sprintf("weft bench --target %s --tls-ca %s --tls-cert %s --tls-key %s --model MODEL", at, d.ClientCA,
			d.ClientCert, d.ClientKey))
}
