package documents_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/documents"
	"github.com/fetcherhq/fetcher/documents/content"
	"github.com/fetcherhq/fetcher/documents/fetch"
	"github.com/fetcherhq/fetcher/problem"
)

// TestCatalogue is the published table.
func TestCatalogue(t *testing.T) {
	t.Parallel()
	got := map[documents.Code]string{}
	for code, info := range documents.Codes() {
		got[code] = fmt.Sprint(info.Status, " ", info.Type, " ", info.Action)
		if info.Keep {
			got[code] += " kept"
		}
		if info.Message == "" || code.Info() != info {
			t.Errorf("%s: %+v", code, info)
		}
	}
	want := map[documents.Code]string{
		"invalid_request":           "400 validation ",
		"authentication_required":   "401 authentication sign_in",
		"human_session_required":    "403 authentication sign_in",
		"reauthentication_required": "401 authentication reauthenticate",
		"csrf_rejected":             "403 authentication refresh",
		"account_changed":           "409 conflict refresh",
		"permission_denied":         "403 authorization request_access",
		"route_not_found":           "404 routing ",
		"method_not_allowed":        "405 routing ",
		"not_found":                 "404 resource ",
		"feature_unavailable":       "501 availability support",
		"idempotency_key_reused":    "422 idempotency review",
		"idempotency_in_progress":   "409 idempotency retry",
		"url_not_approved":          "403 policy request_access",
		"destination_refused":       "403 policy support kept",
		"redirect_refused":          "422 policy review kept",
		"upstream_refused":          "422 upstream review kept",
		"content_too_large":         "422 content review kept",
		"unsupported_media_type":    "422 content review kept",
		"content_type_mismatch":     "422 content review kept",
		"content_invalid":           "422 content review kept",
		"upstream_unavailable":      "502 upstream retry",
		"upstream_incomplete":       "502 upstream retry",
		"upstream_timeout":          "504 upstream retry",
		"upstream_protocol_error":   "502 upstream support kept",
		"source_disconnected":       "409 policy review",
		"approval_changed":          "409 policy review",
		"approval_cannot_widen":     "409 policy review",
		"revision_conflict":         "409 conflict refresh",
		"object_id_in_use":          "409 conflict review kept",
		"sync_in_progress":          "409 conflict retry",
		"rate_limited":              "429 limit retry",
		"quota_exceeded":            "403 limit support",
		"unavailable":               "503 availability retry",
		"outcome_unknown":           "503 internal reconcile",
		"internal":                  "500 internal support",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, code := range []fetch.Code{
		fetch.DestinationRefused, fetch.RedirectRefused, fetch.UpstreamRefused, fetch.Unavailable, fetch.Incomplete, fetch.Timeout,
		fetch.ProtocolError, fetch.TooLarge, fetch.UnsupportedType,
	} {
		if _, ok := want[documents.Code(code)]; !ok {
			t.Errorf("a fetch can end with %s", code)
		}
	}
	for _, code := range []content.Code{content.TooLarge, content.UnsupportedType, content.TypeMismatch, content.Invalid} {
		if _, ok := want[documents.Code(code)]; !ok {
			t.Errorf("content can be refused with %s", code)
		}
	}
}

func TestAsError(t *testing.T) {
	t.Parallel()
	ours := &documents.Error{Code: documents.SyncInProgress}
	for name, tc := range map[string]struct {
		err  error
		want documents.Error
	}{
		"ours":        {fmt.Errorf("sync: %w", ours), *ours},
		"unknown":     {errors.New("x"), documents.Error{Code: documents.Internal}},
		"token":       {problem.New(problem.Unauthenticated, "x"), documents.Error{Code: documents.AuthenticationRequired}},
		"no tenant":   {problem.New(problem.TenantUnknown, "x"), documents.Error{Code: documents.NotFound}},
		"forbidden":   {problem.New(problem.Forbidden, "x"), documents.Error{Code: documents.PermissionDenied}},
		"row":         {problem.New(problem.NotFoundInTenant, "x"), documents.Error{Code: documents.NotFound}},
		"rate":        {problem.New(problem.RateLimited, "x").After(3 * time.Second), documents.Error{Code: documents.RateLimited, RetryAfter: 3 * time.Second}},
		"database":    {problem.New(problem.TenantUnavailable, "x"), documents.Error{Code: documents.Unavailable, RetryAfter: 2 * time.Second}},
		"busy":        {problem.New(problem.Unavailable, "x").After(time.Minute), documents.Error{Code: documents.Unavailable, RetryAfter: time.Minute}},
		"suspended":   {problem.New(problem.TenantSuspended, "x"), documents.Error{Code: documents.PermissionDenied, Action: "support", Message: "The tenant is suspended."}},
		"unforeseen":  {problem.New(problem.JobTerminal, "x"), documents.Error{Code: documents.Internal}},
		"wrapped row": {fmt.Errorf("get: %w", problem.New(problem.NotFoundInTenant, "x")), documents.Error{Code: documents.NotFound}},
	} {
		got := *documents.AsError(tc.err)
		if name != "ours" && !errors.Is(&got, tc.err) {
			t.Errorf("%s: the cause is lost", name)
		}
		got.Err = nil
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if documents.AsError(nil) != nil {
		t.Error("no error is one")
	}
}
