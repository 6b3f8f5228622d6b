package handlers

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humagin"

	"github.com/fetcherhq/fetcher/documents"
	"github.com/fetcherhq/fetcher/tenant"
)

const (
	headerDisposition = "Content-Disposition"
	headerPolicy      = "Content-Security-Policy"

	// contentPolicy keeps a page that came from the web from running where it is looked at.
	contentPolicy = "sandbox; default-src 'none'"
)

func (e *edge) mountContent() {
	op := kataraOperation{
		id: "download-object-content", method: http.MethodGet, path: kataraObject + "/versions/{version}/content", tag: tagObjects,
		summary: "Download the content of one version",
		description: "Streamed and verified on the way: a download that ends short of Content-Length is not the content. " +
			"`ETag` is the version's integrity. HEAD answers the same without the content.",
		permissions: []grant{mayReadMemory}, content: true,
		params: []*huma.Param{
			headerParam("If-None-Match", "304 when one of these is the content's ETag."),
			headerParam("Range", "One range of bytes: 206. Several, or another unit: the whole."),
			headerParam("If-Range", "The content's ETag; with any other value Range counts as absent."),
		},
	}
	e.registerKatara(op, e.downloadContent)
	e.documentContent(op.path)
	op.id, op.method, op.hidden = "head-object-content", http.MethodHead, true
	e.registerKatara(op, e.downloadContent)
}

// documentContent says of the successes what the Go types can't.
func (e *edge) documentContent(path string) {
	answers := e.api.OpenAPI().Paths[path].Get.Responses
	ok := answers[strconv.Itoa(http.StatusOK)]
	ok.Headers = map[string]*huma.Header{
		headerETag: stringHeader("The integrity, quoted."), headerAcceptRanges: stringHeader("bytes"),
		headerDisposition: stringHeader("attachment"), headerPolicy: stringHeader(contentPolicy),
	}
	part := maps.Clone(ok.Headers)
	part[headerContentRange] = stringHeader("Which bytes of how many these are.")
	answers[strconv.Itoa(http.StatusPartialContent)] = &huma.Response{Description: "These bytes of the content.", Headers: part}
	answers[strconv.Itoa(http.StatusNotModified)] = &huma.Response{
		Description: http.StatusText(http.StatusNotModified), Headers: map[string]*huma.Header{headerETag: ok.Headers[headerETag]},
	}
	answers[strconv.Itoa(http.StatusRequestedRangeNotSatisfiable)] = &huma.Response{
		Description: string(documents.InvalidRequest) + ": The requested range lies outside the content.",
		Headers:     map[string]*huma.Header{headerContentRange: stringHeader("How many bytes there are: bytes */n.")},
		Content:     answers[strconv.Itoa(http.StatusNotFound)].Content,
	}
}

func (e *edge) downloadContent(ctx context.Context, out huma.Context) error {
	_, environment := place(ctx)
	lease := tenant.FromContext(ctx)
	content, err := e.opts.Documents.Content(ctx, lease, environment, pathID(ctx, paramID), exchangeOf(ctx).katara.version)
	if err != nil {
		return err
	}
	lease.Release() // a download takes as long as its client likes; it must not hold a pool that may have to close
	request := exchangeOf(ctx).request
	version := content.Version
	tag := `"` + documents.Integrity(version) + `"`
	if matches(request.Header.Values("If-None-Match"), tag) {
		out.SetHeader(headerETag, tag)
		out.SetStatus(http.StatusNotModified)
		return nil
	}
	part, err := parseRange(request.Method, request.Header, tag, version.SizeBytes)
	if err != nil {
		return outsideContent(err)
	}
	first, length, status := int64(0), version.SizeBytes, http.StatusOK
	if part != nil {
		first, length, status = part.first, part.length, http.StatusPartialContent
		out.SetHeader(headerContentRange, part.contentRange(version.SizeBytes))
	}
	for name, value := range map[string]string{
		headerETag: tag, headerType: version.MediaType, headerAcceptRanges: "bytes", headerDisposition: "attachment",
		headerPolicy: contentPolicy, headerLength: strconv.FormatInt(length, 10),
	} {
		out.SetHeader(name, value)
	}
	if request.Method == http.MethodHead {
		out.SetStatus(status)
		return nil
	}
	reader, err := content.Open(ctx, first, length)
	if err != nil {
		return err
	}
	defer func() { _ = reader.Close() }()
	out.SetStatus(status)
	e.stream(ctx, humagin.Unwrap(out).Writer, slog.String("object", version.ObjectID.String()), reader)
	return nil
}

// outsideContent is a range without a byte in it.
func outsideContent(err error) error {
	fault := documents.Invalid("Range", "The requested range lies outside the content.")
	fault.Status, fault.Err = http.StatusRequestedRangeNotSatisfiable, err
	return fault
}
