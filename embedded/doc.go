// Package embedded brings up what a development gateway needs on one machine: a Postgres server of its own, an
// identity service and a sample database.
//
// It owns the data directory it is given and the processes it starts, and touches nothing outside of them except,
// when root has to hand the data to an unprivileged user that can't reach that directory, one private directory
// under /var/lib or the system's temporary directory. It listens on loopback only. It promises that what it
// started ends with the process that started it, however that ends, and that the next start works on what is
// left. It is not meant for production.
package embedded
