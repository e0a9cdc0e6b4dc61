// Package access decides who may do what, and how much of it at a time. It is pure: identities, roles and quotas come
// as values, nothing is read, and the time is an argument.
package access
