package handlers

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humagin"

	"github.com/fetcherhq/fetcher/problem"
	"github.com/fetcherhq/fetcher/results"
	"github.com/fetcherhq/fetcher/store"
	"github.com/fetcherhq/fetcher/tenant"
)

const (
	downloadBuffer = 64 << 10

	// downloadStall is how long a client may take to accept one buffer before it counts as gone.
	downloadStall = time.Minute

	headerAcceptRanges = "Accept-Ranges"
	headerContentRange = "Content-Range"
	headerReprDigest   = "Repr-Digest"
)

type downloadOutput struct {
	Body func(huma.Context)
}

func (e *edge) mountResults() {
	op := operation{
		id: "download-fetcher-result", method: http.MethodGet, path: jobsPath + "/{id}/result",
		resource: resourceJobs, tag: tagJobs,
		summary: "Download the result of a completed job",
		description: "The plaintext, streamed and verified on the way: a download that ends short of Content-Length is not the result. " +
			"`Repr-Digest` and `ETag` hold its SHA-256. HEAD answers the same without the content. Of a part, every block " +
			"is authentic, but only the whole proves its digest. Formats other than json have a file per table: " +
			"`datasource` and `table` choose one; without them a ZIP of all of them and the manifest comes, always the same " +
			"bytes, without `Repr-Digest` and ranges. Compressed files come as they are, without Content-Encoding.",
		params: []*huma.Param{
			queryParam(paramDatasource, "Of the table to download; not for json.", &huma.Schema{Type: huma.TypeString}),
			queryParam(paramTable, "As requested by the job; not for json.", &huma.Schema{Type: huma.TypeString}),
			headerParam("If-None-Match", "304 when one of these is the result's ETag."),
			headerParam("Range", "One range of bytes: 206. Several, or another unit: the whole."),
			headerParam("If-Range", "The result's ETag; with any other value Range counts as absent."),
		},
		success: http.StatusOK,
		codes:   []problem.Code{problem.QueryInvalid, problem.NotFound, problem.ResultNotReady, problem.ResultExpired, problem.RangeNotSatisfiable},
	}
	register(e, op, e.downloadResult)
	op.id, op.method, op.hidden = "head-fetcher-result", http.MethodHead, true
	register(e, op, e.downloadResult)
	e.documentDownload(op.path)
}

func headerParam(name, tells string) *huma.Param {
	return &huma.Param{Name: name, In: inHeader, Description: tells, Schema: &huma.Schema{Type: huma.TypeString}}
}

// documentDownload says of the success what the Go types can't.
func (e *edge) documentDownload(path string) {
	answers := e.api.OpenAPI().Paths[path].Get.Responses
	ok := answers[strconv.Itoa(http.StatusOK)]
	ok.Content = map[string]*huma.MediaType{mediaJSON: {Schema: &huma.Schema{}}}
	for _, media := range fileMedia() {
		ok.Content[media] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}
	}
	ok.Headers = map[string]*huma.Header{
		headerETag:         stringHeader("The result's SHA-256, quoted."),
		headerReprDigest:   stringHeader("The result's SHA-256 in the form of RFC 9530."),
		headerAcceptRanges: stringHeader("bytes"),
	}
	part := maps.Clone(ok.Headers)
	part[headerContentRange] = stringHeader("Which bytes of how many these are.")
	answers[strconv.Itoa(http.StatusPartialContent)] = &huma.Response{ // no content: a part is not of the media type
		Description: "These bytes of the result, under its own Content-Type.", Headers: part,
	}
	answers[strconv.Itoa(http.StatusRequestedRangeNotSatisfiable)].Headers = map[string]*huma.Header{
		headerContentRange: stringHeader("How many bytes there are: bytes */n."),
	}
	answers[strconv.Itoa(http.StatusNotModified)] = &huma.Response{
		Description: http.StatusText(http.StatusNotModified),
		Headers:     map[string]*huma.Header{headerETag: ok.Headers[headerETag]},
	}
}

func (e *edge) downloadResult(ctx context.Context, in *idInput) (*downloadOutput, error) {
	job, err := findJob(ctx, in)
	if err != nil {
		return nil, err
	}
	facts, err := e.resultFacts(job)
	if err != nil {
		return nil, err
	}
	tenantID := tenant.FromContext(ctx).TenantID()
	// A download takes as long as its client likes; it must not hold a pool that may have to close.
	tenant.FromContext(ctx).Release()
	d, err := e.choose(ctx, tenantID, job, facts)
	if err != nil {
		return nil, err
	}
	if matches(exchangeOf(ctx).request.Header.Values("If-None-Match"), d.tag) {
		return &downloadOutput{Body: func(out huma.Context) {
			out.SetHeader(headerETag, d.tag)
			out.SetStatus(http.StatusNotModified)
		}}, nil
	}
	var part *byteRange
	if d.whole == nil {
		if part, err = parseRange(exchangeOf(ctx).request.Method, exchangeOf(ctx).request.Header, d.tag, d.size()); err != nil {
			return nil, err
		}
	}
	reader, err := e.openDownload(ctx, tenantID, d, part)
	if err != nil {
		return nil, resultFault(job, err)
	}
	return &downloadOutput{Body: func(out huma.Context) {
		defer func() { _ = reader.Close() }()
		d.describe(out, part)
		if out.Method() != http.MethodHead {
			e.stream(ctx, humagin.Unwrap(out).Writer, slog.String("job", job.ID.String()), reader)
		}
	}}, nil
}

// openDownload opens what is downloaded, or the part of it. The whole is verified whole, also when it was asked for as
// a range.
func (e *edge) openDownload(ctx context.Context, tenantID string, d *download, part *byteRange) (io.ReadCloser, error) {
	if d.whole != nil {
		return d.whole.Open(ctx)
	}
	if part == nil || part.length == d.facts.SizeBytes {
		return e.opts.Results.OpenReader(ctx, tenantID, d.facts)
	}
	at, err := e.opts.Results.OpenReaderAt(ctx, tenantID, d.facts)
	if err != nil {
		return nil, err
	}
	// The first block is looked at before anything is promised.
	reader := bufio.NewReaderSize(io.NewSectionReader(at, part.first, part.length), downloadBuffer)
	if _, err := reader.Peek(1); err != nil {
		return nil, errors.Join(err, at.Close())
	}
	return partReader{Reader: reader, Closer: at}, nil
}

// resultFacts returns what is known of the object that stands for the job's result; FET-1023 and FET-1024 when there is none, yet or any more.
func (e *edge) resultFacts(job *store.Job) (results.Facts, error) {
	if job.Status != store.JobCompleted {
		return results.Facts{}, problem.New(problem.ResultNotReady, "the job has no result")
	}
	expired := job.ResultExpiresAt != nil && !e.opts.Clock().Before(*job.ResultExpiresAt)
	if expired || job.ResultPath == nil {
		return results.Facts{}, problem.New(problem.ResultExpired, "the result has expired")
	}
	facts := results.Facts{Key: *job.ResultPath}
	if job.ResultSizeBytes == nil || job.ResultSHA256 == nil || job.ResultHMAC == nil || job.ResultKeyVersion == nil {
		return results.Facts{}, errors.New("a completed job lacks facts of its result")
	}
	facts.SizeBytes, facts.SHA256, facts.HMAC = *job.ResultSizeBytes, *job.ResultSHA256, *job.ResultHMAC
	facts.KeyVersion = *job.ResultKeyVersion
	if job.ResultManifestBytes != nil {
		facts.SizeBytes = *job.ResultManifestBytes
	}
	return facts, nil
}

// stream copies a result, or what is, to the client. The reader's error is the only proof of the content, and the status is on
// the wire by then: a stream that fails is cut, so that it can't be taken for a whole one.
func (e *edge) stream(ctx context.Context, writer http.ResponseWriter, what slog.Attr, reader io.Reader) {
	control := http.NewResponseController(writer)
	buffer := make([]byte, downloadBuffer)
	for {
		n, err := reader.Read(buffer)
		if n > 0 {
			_ = control.SetWriteDeadline(time.Now().Add(downloadStall))
			if _, writeErr := writer.Write(buffer[:n]); writeErr != nil {
				panic(http.ErrAbortHandler) // the client left
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return
		case err != nil:
			e.log.LogAttrs(ctx, slog.LevelError, "download cut off",
				what, slog.Any("error", resultCause(err)))
			panic(http.ErrAbortHandler)
		}
	}
}

// resultFault maps what can be wrong with an object before the first byte of it was sent.
func resultFault(job *store.Job, err error) error {
	switch kind := resultCause(err); {
	case errors.Is(kind, results.ErrUnavailable):
		return problem.Wrap(kind, problem.Unavailable, "")
	default: // ErrGone among them: until it expires, a result that is not there is lost
		return fmt.Errorf("open result of job %s: %w", job.ID, kind)
	}
}

// resultCause reduces an error of the object storage to its kind: the storage's own words can hold addresses.
func resultCause(err error) error {
	for _, kind := range []error{results.ErrTampered, results.ErrGone, results.ErrUnavailable} {
		if errors.Is(err, kind) {
			return kind
		}
	}
	return err
}

// matches compares weakly, as If-None-Match asks.
func matches(lines []string, tag string) bool {
	for candidate := range strings.SplitSeq(strings.Join(lines, ","), ",") {
		candidate = strings.TrimPrefix(strings.TrimSpace(candidate), "W/")
		if candidate == "*" || candidate == tag {
			return true
		}
	}
	return false
}

func reprDigest(sha256Hex string) string {
	sum, err := hex.DecodeString(sha256Hex)
	if err != nil {
		return ""
	}
	return "sha-256=:" + base64.StdEncoding.EncodeToString(sum) + ":"
}
