// Package extract owns one run of one extraction: from the datasources a job names to encrypted objects.
//
// It touches external databases through package source and object storage through package results, and nothing of
// ours besides: no queue, no tenant database. It promises:
//
//   - Every datasource is read over one connection, after one look at its catalogue, inside one snapshot.
//   - Rows flow; memory doesn't depend on their number. Datasources are read in parallel, each a bounded number of
//     bytes ahead of the output, whose order is that of the names.
//   - A result is one object, or an object per table and a manifest that is written last. The object, or the manifest,
//     is committed only after every cursor has ended without an error and everything was written. Any failure before
//     that leaves none: what was committed for single tables is removed again while the attempt may do that.
//   - Every error is a *Failure with a code, the place, and whether trying again may help; its message may be shown.
package extract

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/results"
	"github.com/fetcherhq/fetcher/source"
)

// Job is what to extract and where to.
type Job struct {
	ID          uuid.UUID
	TenantID    string
	Key         string    // of the document or the manifest: results.Store.Key with Output.ObjectName at its end
	Deadline    time.Time // of this attempt; zero: none
	Datasources []Datasource
	Output      Output
	SafeCells   bool  // CSV: texts that spreadsheets take for formulas get a ' in front
	MaxBytes    int64 // of the result, as a download serves it; 0: no limit
	MaxRows     int64 // of all tables together; 0: no limit

	// Retry says that an earlier attempt may have left objects of this result, which are removed first.
	Retry bool
	// Owned tells whether this attempt still is the one that may write under Key, as results.Store.Reclaim asks. nil:
	// nobody else ever does.
	Owned func(context.Context) error
}

// Datasource is one external database and what to read from it.
type Datasource struct {
	Name   string // its configName, and its key in the result
	Params source.Params
	Dialer source.Dialer // instead of the Runner's; for databases that are exempt from its rules
	Tables []Table

	// Where holds the filters by table. A table may be spelled another way than in Tables.
	Where map[string][]source.Condition
}

// Table is one table of a datasource, by the name it was requested under.
type Table struct {
	Name   string
	Fields []string // "*" alone: all, in catalogue order
}

// Result is what a run that succeeded knows of its objects.
type Result struct {
	Facts       results.Facts // of the document or the manifest
	Format      string
	SizeBytes   int64 // of the document or of all tables
	Rows        int64
	Tables      []TableFacts      // in the order of the output
	Consistency map[string]string // by datasource: "snapshot", or what its server allowed instead
}

// Progress tells how far a run has come.
type Progress struct {
	Rows  int64  `json:"rows"`
	Bytes int64  `json:"bytes"` // of the result, as a download will serve it
	Table string `json:"table"` // datasource.table being written
}

// Runner runs extractions. It is safe for concurrent use and keeps nothing between runs.
type Runner struct {
	Drivers source.Drivers
	Dialer  source.Dialer
	Store   *results.Store

	Parallel  int // datasources read at once; 0: 4
	ReadAhead int // bytes one datasource may be ahead of the output; 0: 4 MiB
	RowGroups int // bytes that row groups being made take, of all datasources of a job; 0: 12 MiB
}

const (
	defaultParallel  = 4
	defaultReadAhead = 4 << 20
	defaultRowGroups = 12 << 20
)
