// Package jobs owns the life of an extraction job: taking a request in, queueing it, running it on a worker, and
// ending it once.
//
// It touches the control database (queue and leases), tenants' databases through leases held for single operations,
// external databases through packages connections and extract, and object storage through extract. It promises:
//
//   - The queue entry is written before the job row. A crash between the two leaves an entry without a row, which is
//     dropped after a minute, and never a row without an entry.
//   - A job runs under a lease that its worker renews. A worker that lost it stops; a sweeper puts the job back.
//   - Every change of a job is guarded by its attempt number, and its end is written together with its event: once,
//     by the attempt that is current.
//   - Transient failures are tried again, after growing delays and a bounded number of times.
package jobs

import "time"

// resultsDirectory is where a tenant's results are in the bucket.
const resultsDirectory = "external-data"

// Timings of the contract.
const (
	dedupWindow  = 5 * time.Minute  // in which a completed job suppresses an identical request
	checkTimeout = 10 * time.Second // for all checks of one datasource of a new job

	leaseTTL    = 15 * time.Second
	heartbeat   = 5 * time.Second
	rowPatience = time.Minute // after which an entry without a job row is dropped

	controlTimeout = 3 * time.Second // for one question to the control database
	createTimeout  = 4 * time.Second // for a new job's entry, the wait for an identical request's included
	sweepTimeout   = 5 * time.Second // for one sweep; the next one goes on
)
