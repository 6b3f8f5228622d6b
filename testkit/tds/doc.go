// Package tds is a scripted server that speaks Microsoft's TDS 7.4 (and the outside of 8.0), for tests of clients.
// Only tests import it.
//
// It owns its listener and connections, which end with the test. It promises the framing, tokens and encodings of the
// openly documented MS-TDS protocol: PRELOGIN with TLS inside of it or around it, LOGIN7, SQL batches, sp_executesql,
// transaction manager requests, attention. It knows no SQL: a script tells which statement gets which answer, and what
// arrived is kept for the test to look at.
package tds
