package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fetcherhq/fetcher/embedded"
)

const (
	pollInterval = 50 * time.Millisecond
	shownRows    = 3
)

func (d *demonstration) follow(ctx context.Context) error {
	bar := d.steps.bar("Extracting", embedded.SampleRows)
	for {
		if err := d.api.call(ctx, http.MethodGet, "/v1/fetcher/"+d.job.ID, nil, nil, &d.job); err != nil {
			return err
		}
		switch {
		case d.job.Status == "failed":
			return fmt.Errorf("the job failed: %s: %s", d.job.Error.Code, d.job.Error.Message)
		case d.job.Status == "completed":
			bar.finish(d.job.Result.RowCount)
			return d.steps.do("Extraction completed", func() (string, error) {
				took := d.job.CompletedAt.Sub(d.job.CreatedAt)
				return fmt.Sprintf("%d rows, %d bytes in %s, stored encrypted as %s",
					d.job.Result.RowCount, d.job.Result.SizeBytes, took.Round(time.Millisecond), d.job.ResultPath), nil
			})
		case d.job.Progress != nil:
			bar.set(d.job.Progress.Rows)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the job: %w", context.Cause(ctx))
		case <-time.After(pollInterval):
		}
	}
}

// download streams the result through both digests and shows the first rows.
func (d *demonstration) download(ctx context.Context) error {
	ring, err := newKeyring(d.cfg)
	if err != nil {
		return err
	}
	key, err := ring.ExternalHMACKey(ring.CurrentVersion(), d.tenant.ID)
	if err != nil {
		return fmt.Errorf("deriving the signature's key: %w", err)
	}
	digest, signature := sha256.New(), hmac.New(sha256.New, key)
	head := &headWriter{limit: 64 << 10}
	err = d.steps.do("Downloading the result", func() (string, error) {
		resp, failure := d.api.send(ctx, http.MethodGet, "/v1/fetcher/"+d.job.ID+"/result", nil, nil)
		if failure != nil {
			return "", failure
		}
		defer resp.Body.Close()
		n, failure := io.Copy(io.MultiWriter(digest, signature, head), resp.Body)
		return fmt.Sprintf("%d bytes, decrypted on the way", n), failure
	})
	if err != nil {
		return err
	}
	if err = d.verify("SHA-256 digest", digest.Sum(nil), d.job.Result.SHA256); err != nil {
		return err
	}
	if err := d.verify("HMAC-SHA256 with the tenant's key", signature.Sum(nil), d.job.ResultHMAC); err != nil {
		return err
	}
	return d.steps.do("First rows", func() (string, error) { return firstRows(head.Bytes()) })
}

func (d *demonstration) verify(what string, got []byte, want string) error {
	return d.steps.do("Verifying the "+what, func() (string, error) {
		if !hmac.Equal([]byte(hex.EncodeToString(got)), []byte(want)) {
			return "", errors.New("the " + what + " is not what the job says")
		}
		return want, nil
	})
}

// headWriter keeps the first limit bytes of what is written.
type headWriter struct {
	bytes.Buffer

	limit int
}

func (w *headWriter) Write(p []byte) (int, error) {
	if room := w.limit - w.Len(); room > 0 {
		w.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// firstRows returns the first rows of a result document, one a line.
func firstRows(head []byte) (string, error) {
	dec := jsontext.NewDecoder(bytes.NewReader(head))
	for range 5 { // {"datasource":{"table":[
		if _, err := dec.ReadToken(); err != nil {
			return "", fmt.Errorf("reading the document: %w", err)
		}
	}
	var text strings.Builder
	for range shownRows {
		row, err := dec.ReadValue()
		if err != nil {
			return "", fmt.Errorf("reading a row: %w", err)
		}
		text.WriteString("\n        " + string(row))
	}
	return text.String(), nil
}
