// Package testkit gives tests real servers: Postgres, S3, an identity service. Only tests import it.
//
// It owns every process, port and temporary directory that it starts or makes and promises that none of them
// outlives the test process, however that ends. A server shared by the tests of one process starts when the first
// test asks for it; each test gets a database of its own on it.
package testkit
