package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// token is that of an identity of the server.
const token = "fuzz-a-token-that-is-known"

// accessRules let callers do everything, whether they show a token that is known or nothing.
const accessRules = `
tokens: tokens.txt
jwt: {issuer: "https://issuer.example", audience: weft, jwks: keys.json}
roles: {all: {predict: ["*"], observe: ["*"], operate: ["*"]}}
identities:
  - {name: known, callers: ["token:known"], roles: [all], quota: {requests-in-flight: 100000, rate: 1000000}}
  - {name: everybody, callers: [anonymous], roles: [all]}
`

// unsigned is a JWT but for its signature.
var unsigned = strings.Join([]string{
	encoded([]byte(`{"alg":"ES256","kid":"1"}`)),
	encoded([]byte(`{"iss":"https://issuer.example","aud":"weft","sub":"a","exp":4102444800}`)), encoded(make([]byte, 64)),
}, ".")

func encoded(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// writeAccess writes an access file, and what it names, into a folder, and returns its path.
func writeAccess(folder string) (path string, _ error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	point, err := key.PublicKey.Bytes()
	if err != nil {
		return "", err
	}
	path = filepath.Join(folder, "access.yaml")
	for name, text := range map[string]string{
		"access.yaml": accessRules,
		"tokens.txt":  fmt.Sprintf("known sha256:%x\n", sha256.Sum256([]byte(token))),
		"keys.json": fmt.Sprintf(`{"keys": [{"kty": "EC", "crv": "P-256", "kid": "1", "x": %q, "y": %q}]}`,
			encoded(point[1:33]), encoded(point[33:])),
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	return path, nil
}
