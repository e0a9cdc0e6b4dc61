// Package hostile makes what a hostile caller sends, for tests of a server's ports.
//
//   - Text makes strings that have broken logs, pages, labels, paths or parsers somewhere.
//   - Maker fills messages of any kind with such strings and with numbers at the ends of their types. Mutated damages
//     encoded ones.
//   - Conn is an HTTP/2 connection that sends frames as it is told to, legal or not. It notes how the server answers
//     each whole call.
//
// Everything follows from the seed of a random source, so that a failure can be repeated.
package hostile
