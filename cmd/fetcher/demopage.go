package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/embedded"
)

// apiSynced is a web page that was fetched.
type apiSynced struct {
	Changed   bool   `json:"changed"`
	MediaType string `json:"media_type"`
	SizeBytes int64  `json:"size_bytes"`
	Content   struct {
		ID        string `json:"id"`
		Version   int64  `json:"version"`
		Integrity string `json:"integrity"`
		MediaType string `json:"media_type"`
		SizeBytes int64  `json:"size_bytes"`
	} `json:"content"`
}

// fetchPage approves the sample pages as an administrator and fetches one of them as an operator.
func (d *demonstration) fetchPage(ctx context.Context) error {
	origin, err := embedded.SiteOrigin(d.dir.site())
	if err != nil {
		return err
	}
	base, source, err := d.approve(ctx, origin)
	if err != nil {
		return err
	}
	var page apiSynced
	err = d.steps.do("Fetching one of its pages", func() (string, error) {
		header := http.Header{"Idempotency-Key": {uuid.NewString()}}
		failure := d.api.call(ctx, http.MethodPost, base+"/sources/"+source+"/sync", header,
			map[string]string{"url": origin + embedded.SiteStart, "object_id": uuid.NewString()}, &page)
		return fmt.Sprintf("%d bytes of %s, stored as %s, version %d", page.SizeBytes, page.MediaType, page.Content.MediaType, page.Content.Version), failure
	})
	if err != nil {
		return err
	}
	return d.readPage(ctx, base, &page)
}

// approve makes an environment with a source in it, and returns where the environment is and the source's id. Only a
// person who has just signed in may do that, so the token is minted for the occasion.
func (d *demonstration) approve(ctx context.Context, origin string) (base, source string, err error) {
	err = d.steps.do("Approving the web pages below "+origin+embedded.SitePrefix, func() (string, error) {
		issuer, failure := embedded.OpenIssuer(d.dir.identity())
		if failure != nil {
			return "", failure
		}
		token, failure := issuer.Mint(embedded.TokenRequest{Tenant: d.tenant.ID, Role: embedded.RoleAdmin})
		if failure != nil {
			return "", failure
		}
		admin := &apiClient{d.api.base, token, d.api.http}
		var made struct {
			ID string `json:"id"`
		}
		environments := "/katara/v1/orgs/" + d.tenant.OrgID + "/environments"
		name := "demo-" + uuid.NewString()[:8]
		if failure = admin.call(ctx, http.MethodPost, environments, nil, map[string]string{"name": name}, &made); failure != nil {
			return "", failure
		}
		base = environments + "/" + made.ID
		failure = admin.call(ctx, http.MethodPost, base+"/sources", nil,
			map[string]string{"name": name, "origin": origin, "path_prefix": embedded.SitePrefix}, &made)
		source = made.ID
		return "source " + source, failure
	})
	return base, source, err
}

// readPage downloads what was stored, holds it against its integrity and shows it.
func (d *demonstration) readPage(ctx context.Context, base string, page *apiSynced) error {
	return d.steps.do("Downloading what was stored, and verifying its integrity", func() (string, error) {
		path := fmt.Sprintf("%s/objects/%s/versions/%d/content", base, page.Content.ID, page.Content.Version)
		resp, err := d.api.send(ctx, http.MethodGet, path, nil, nil)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		content, err := io.ReadAll(resp.Body)
		if err != nil {
			return "", fmt.Errorf("reading the content: %w", err)
		}
		sum := sha256.Sum256(content)
		if page.Content.Integrity != "sha256:"+hex.EncodeToString(sum[:]) || page.Content.SizeBytes != int64(len(content)) {
			return "", errors.New("the content is not what was promised")
		}
		text := strings.TrimSpace(string(content))
		return page.Content.Integrity + "\n        " + strings.ReplaceAll(strings.ReplaceAll(text, "\n\n", "\n"), "\n", "\n        "), nil
	})
}
