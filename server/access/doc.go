// Package access controls who may call what, and how much of it at a time: it authenticates callers, authorizes their
// calls by the roles of the access file, and counts their quotas.
//
// To authenticate is to prove claims (Proof): by the certificate of a connection, the user at the other end of a unix
// socket, a token, or a JWT. No disk is read; the issuer of JWTs is asked for its keys. To authorize is pure: patterns,
// policies, quotas and rules (pattern.go, policy.go, decide.go, quota.go, rule.go) come as values, and the time is an
// argument. Control joins the two for each call. Browsers keeps pages of others from having a browser call the server.
package access
