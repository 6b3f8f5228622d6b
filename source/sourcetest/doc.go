// Package sourcetest is the conformance suite that every kind of source passes. Only tests import it.
//
// It owns what must hold for all of them: filters, names, snapshots, connections that break or fall silent, statements
// that are cancelled, memory. A kind describes how fixtures are made on its server and what that server can't do, with
// the reason; such tests are skipped visibly.
package sourcetest
