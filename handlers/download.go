package handlers

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"path"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/results"
	"github.com/fetcherhq/fetcher/store"
)

const (
	paramDatasource = "datasource"
	paramTable      = "table"

	mediaZIP = "application/zip"

	manifestName = "manifest.json" // of the entry in an archive, as of the object
)

// mediaTypes are those of the bytes a download serves, by the end of the object's key.
var mediaTypes = map[string]string{ //nolint:gochecknoglobals // a table
	".json": mediaJSON, ".ndjson": "application/x-ndjson", ".csv": "text/csv", ".parquet": "application/vnd.apache.parquet",
	".gz": "application/gzip", ".zst": "application/zstd",
}

// fileMedia are the media types besides JSON.
func fileMedia() []string {
	return []string{"application/x-ndjson", "text/csv", "application/vnd.apache.parquet", "application/gzip", "application/zstd", mediaZIP}
}

// download is what one request downloads: an object, or an archive of all.
type download struct {
	facts results.Facts
	whole *results.Archive // nil: the object
	tag   string
}

func (d *download) size() int64 {
	if d.whole != nil {
		return d.whole.Size()
	}
	return d.facts.SizeBytes
}

func (d *download) mediaType() string {
	if d.whole != nil {
		return mediaZIP
	}
	return mediaTypes[path.Ext(d.facts.Key)]
}

// describe sets status and headers.
func (d *download) describe(out huma.Context, part *byteRange) {
	length, status := d.size(), http.StatusOK
	out.SetHeader(headerETag, d.tag)
	out.SetHeader(headerType, d.mediaType())
	out.SetHeader(headerAcceptRanges, "none")
	if d.whole == nil {
		out.SetHeader(headerAcceptRanges, "bytes")
		out.SetHeader(headerReprDigest, reprDigest(d.facts.SHA256))
	}
	if part != nil {
		length, status = part.length, http.StatusPartialContent
		out.SetHeader(headerContentRange, part.contentRange(d.facts.SizeBytes))
	}
	out.SetHeader("Content-Length", strconv.FormatInt(length, 10))
	out.SetStatus(status)
}

// tableObject is one table of a result that has an object per table, as the job keeps it.
type tableObject struct {
	Datasource string `json:"datasource"`
	Table      string `json:"table"`
	Path       string `json:"path"`
	File       string `json:"file"`
	SizeBytes  int64  `json:"sizeBytes"`
	SHA256     string `json:"sha256"`
	HMAC       string `json:"hmac"`
	CRC32      uint32 `json:"crc32"`
}

func (t *tableObject) facts(keyVersion int) results.Facts {
	return results.Facts{
		Key: t.Path, SizeBytes: t.SizeBytes, SHA256: t.SHA256, HMAC: t.HMAC, CRC32: t.CRC32, KeyVersion: keyVersion,
	}
}

// choose finds what the request's parameters ask for. facts are those of the document or the manifest.
func (e *edge) choose(ctx context.Context, tenantID string, job *store.Job, facts results.Facts) (*download, error) {
	params, err := queryOf(ctx)
	if err != nil {
		return nil, err
	}
	datasource, table := params[paramDatasource], params[paramTable]
	perTable := job.ResultManifestBytes != nil
	switch {
	case (datasource == "") != (table == ""):
		return nil, problem.New(problem.QueryInvalid, "datasource and table come together").
			With(problem.Field{Location: inQuery, Message: "needs both of datasource and table, or none"})
	case table != "" && !perTable:
		return nil, problem.New(problem.QueryInvalid, "a json result is one document").
			With(problem.Field{Location: inQuery + "." + paramTable, Message: "is not for json results"})
	case !perTable:
		return &download{facts: facts, tag: `"` + facts.SHA256 + `"`}, nil
	}
	var tables []tableObject
	if err := json.Unmarshal(job.ResultTables, &tables); err != nil {
		return nil, fmt.Errorf("read the tables of job %s: %w", job.ID, err)
	}
	if table == "" {
		return e.archive(ctx, tenantID, job, facts, tables)
	}
	i := slices.IndexFunc(tables, func(t tableObject) bool { return t.Datasource == datasource && t.Table == table })
	if i < 0 {
		return nil, problem.New(problem.NotFound, "the result has no such table")
	}
	return &download{facts: tables[i].facts(facts.KeyVersion), tag: `"` + tables[i].SHA256 + `"`}, nil
}

// archive describes the archive of the manifest and all tables. The manifest names their digests, so that its own tells
// archives apart.
func (e *edge) archive(
	ctx context.Context, tenantID string, job *store.Job, manifest results.Facts, tables []tableObject,
) (*download, error) {
	var err error
	if manifest.CRC32, err = e.checksum(ctx, tenantID, manifest); err != nil {
		return nil, resultFault(job, err)
	}
	entries := []results.ArchiveEntry{{Name: manifestName, Facts: manifest}}
	for i := range tables {
		entries = append(entries, results.ArchiveEntry{Name: tables[i].File, Facts: tables[i].facts(manifest.KeyVersion)})
	}
	return &download{
		facts: manifest, whole: results.NewArchive(e.opts.Results, tenantID, entries), tag: `"zip-` + manifest.SHA256 + `"`,
	}, nil
}

// checksum reads an object for its CRC-32.
func (e *edge) checksum(ctx context.Context, tenantID string, f results.Facts) (uint32, error) {
	r, err := e.opts.Results.OpenReader(ctx, tenantID, f)
	if err != nil {
		return 0, err
	}
	sum := crc32.NewIEEE()
	_, err = io.Copy(sum, r)
	return sum.Sum32(), errors.Join(err, r.Close())
}
