package extract

import (
	"context"
	"encoding/json"

	"github.com/fetcherhq/fetcher/results"
)

// TableFacts describe one table of a result. The members behind Rows are set where the table is an object by itself.
type TableFacts struct {
	Datasource string `json:"datasource"`
	Table      string `json:"table"`
	Rows       int64  `json:"rows"`
	Path       string `json:"path,omitempty"` // the object's key
	File       string `json:"file,omitempty"` // of the table in an archive: Path below the result's directory
	SizeBytes  int64  `json:"sizeBytes,omitempty"`
	SHA256     string `json:"sha256,omitempty"`
	HMAC       string `json:"hmac,omitempty"`
	CRC32      uint32 `json:"crc32,omitempty"` // IEEE, for archives
}

// Manifest is the document that lists the objects of a result.
type Manifest struct {
	JobID       string          `json:"jobId"`
	Format      string          `json:"format"`
	Compression string          `json:"compression"`
	RowCount    int64           `json:"rowCount"`
	SizeBytes   int64           `json:"sizeBytes"` // of all tables
	Tables      []ManifestTable `json:"tables"`
}

// ManifestTable is one object of a result.
type ManifestTable struct {
	Datasource string `json:"datasource"`
	Table      string `json:"table"`
	File       string `json:"file"` // its name in an archive
	Path       string `json:"path"` // its key
	Rows       int64  `json:"rows"`
	SizeBytes  int64  `json:"sizeBytes"`
	SHA256     string `json:"sha256"`
	HMAC       string `json:"hmac"`
}

// tablesTarget writes an object per table and in the end the manifest.
type tablesTarget struct {
	runner *Runner
	job    Job
	limit  limit
	table  *object // being written; nil between tables
	tables []TableFacts
	last   *results.Writer // the manifest's, while it is written
}

func (r *Runner) newTables(job Job) target {
	return &tablesTarget{runner: r, job: job, limit: limit{most: job.MaxBytes}}
}

func (t *tablesTarget) begin(string, bool) error { return nil }

func (t *tablesTarget) end(string, bool) error { return nil }

// open begins the object of the table at a place, unless it has begun.
func (t *tablesTarget) open(ctx context.Context, at place) error {
	if t.table != nil {
		return nil
	}
	compression := t.job.Output.compression()
	if t.job.Output.format() == FormatParquet { // compresses by itself
		compression = CompressionNone
	}
	key := directory(t.job.Key) + t.job.Output.tableFile(at.datasource, at.table)
	var err error
	t.table, err = t.runner.create(ctx, t.job, key, compression, &t.limit)
	return err
}

func (t *tablesTarget) write(ctx context.Context, at place, p []byte) error {
	if err := t.open(ctx, at); err != nil {
		return err
	}
	return t.table.write(at, p)
}

func (t *tablesTarget) endTable(ctx context.Context, at place, rows int64) error {
	if err := t.open(ctx, at); err != nil {
		return err
	}
	t.table.at = at
	facts, err := t.table.finish(ctx)
	if err != nil {
		return err
	}
	t.tables = append(t.tables, TableFacts{
		Datasource: at.datasource, Table: at.table, Rows: rows, Path: facts.Key,
		File: t.job.Output.tableFile(at.datasource, at.table), SizeBytes: facts.SizeBytes, SHA256: facts.SHA256,
		HMAC: facts.HMAC, CRC32: facts.CRC32,
	})
	t.table = nil
	return nil
}

func (t *tablesTarget) size() int64 { return t.limit.used }

func (t *tablesTarget) commit(ctx context.Context, consistency map[string]string) (Result, error) {
	m := Manifest{
		JobID: t.job.ID.String(), Format: t.job.Output.format(), Compression: t.job.Output.compression(),
		Tables: []ManifestTable{},
	}
	for _, f := range t.tables {
		m.RowCount, m.SizeBytes = m.RowCount+f.Rows, m.SizeBytes+f.SizeBytes
		m.Tables = append(m.Tables, ManifestTable{
			Datasource: f.Datasource, Table: f.Table, File: f.File, Path: f.Path, Rows: f.Rows,
			SizeBytes: f.SizeBytes, SHA256: f.SHA256, HMAC: f.HMAC,
		})
	}
	text, err := json.Marshal(m)
	if err != nil {
		return Result{}, err
	}
	if t.last, err = t.runner.Store.Create(ctx, t.job.TenantID, t.job.Key); err != nil {
		return Result{}, ofStorage(err)
	}
	if _, err = t.last.Write(text); err != nil {
		return Result{}, ofStorage(err)
	}
	facts, err := t.last.Commit(ctx)
	if err != nil {
		return Result{}, ofStorage(err)
	}
	return Result{
		Facts: facts, Format: m.Format, SizeBytes: m.SizeBytes, Tables: t.tables, Consistency: consistency,
	}, nil
}

func (t *tablesTarget) abort() {
	if t.table != nil {
		t.table.w.Abort()
	}
	if t.last != nil {
		t.last.Abort()
	}
}

// partial also counts a manifest whose commit failed: it may be there nevertheless.
func (t *tablesTarget) partial() bool { return len(t.tables) > 0 || t.last != nil || t.table != nil }
