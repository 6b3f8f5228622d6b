package main

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
)

// healthy is two hours of a gateway at work, of which nobody should be woken, whatever another service does. A case replaces lines by their first word.
const healthy = `
up{job="f",instance="a"} 1x120
process_start_time_seconds{job="f",instance="a"} 0x120
process_open_fds{job="f",instance="a"} 50x120
up{job="other",instance="b"} 0x120
process_start_time_seconds{job="other",instance="b"} 0+600x120
process_open_fds{job="other",instance="b"} 1000x120
process_max_fds{job="other",instance="b"} 1024x120
http_server_request_duration_seconds_count{job="other",http_route="/x",http_response_status_code="500"} 0+600x120
process_max_fds{job="f",instance="a"} 1024x120
http_server_request_duration_seconds_count{job="f",http_route="/v1/fetcher",http_response_status_code="200"} 0+600x120
http_server_request_duration_seconds_count{job="f",http_route="/v1/fetcher",http_response_status_code="503"} 0+1x120
http_server_request_duration_seconds_bucket{job="f",http_route="/v1/fetcher",le="0.1"} 0+599x120
http_server_request_duration_seconds_bucket{job="f",http_route="/v1/fetcher",le="5"} 0+600x120
http_server_request_duration_seconds_bucket{job="f",http_route="/v1/fetcher",le="+Inf"} 0+600x120
fetcher_readyz_check{job="f",check="queue"} 1x120
fetcher_auth_decisions_total{job="f",decision="allow"} 0+600x120
fetcher_auth_decisions_total{job="f",decision="unavailable"} 0x120
fetcher_auth_tokens_total{job="f",result="cached"} 0+600x120
fetcher_auth_tokens_total{job="f",result="unavailable"} 0x120
fetcher_auth_tokens_total{job="f",result="signature"} 0+5x120
fetcher_auth_key_refreshes_total{job="f",result="ok"} 0+0.1x120
fetcher_auth_key_refreshes_total{job="f",result="failed"} 0x120
fetcher_tenant_pool_opens_total{job="f",outcome="ok"} 0+1x120
fetcher_tenant_pool_opens_total{job="f",outcome="failed"} 0x120
fetcher_tenant_pool_unlinked_total{job="f",reason="evicted"} 0+1x120
fetcher_tenant_pool_wait_time_seconds_total{job="f",tenant="acme"} 0+1x120
fetcher_queue_age_seconds{job="f"} 2x120
fetcher_queue_depth{job="f",state="available"} 3x120
fetcher_jobs_running{job="f",instance="a"} 2x120
fetcher_jobs_finished_total{job="f",outcome="completed"} 0+10x120
fetcher_jobs_finished_total{job="f",outcome="failed",code="FET-1030"} 0+1x120
fetcher_jobs_finished_total{job="f",outcome="failed",code="FET-1025"} 0+9x120
fetcher_jobs_retries_total{job="f",code="FET-1040"} 0+0.2x120
fetcher_jobs_takeovers_total{job="f"} 0x120
fetcher_source_duration_seconds_count{job="f",kind="POSTGRESQL",operation="open",outcome="ok"} 0+10x120
fetcher_source_duration_seconds_count{job="f",kind="POSTGRESQL",operation="open",outcome="auth"} 0+1x120
gocloud_dev_blob_latency_milliseconds_count{job="f",gocdk_status="OK"} 0+10x120
gocloud_dev_blob_latency_milliseconds_count{job="f",gocdk_status="NotFound"} 0+1x120
gocloud_dev_blob_latency_milliseconds_count{job="f",gocdk_status="Unknown"} 0x120
fetcher_outbox_lag_seconds{job="f"} 1x120
fetcher_outbox_parked{job="f"} 0x120
fetcher_events_deliveries_total{job="f",outcome="delivered"} 0+10x120
fetcher_events_deliveries_total{job="f",outcome="unrouted"} 0x120
fetcher_document_fetches_total{job="f",code="ok"} 0+10x120
fetcher_document_fetches_total{job="f",code="FETCH_FAILED"} 0+1x120
`

// ill is what the series of an alert are when it should fire; the rest is as in healthy. "gone" takes a series away.
func ill() map[string]map[string]string {
	return map[string]map[string]string{
		"FetcherAPIErrors":                  {`http_server_request_duration_seconds_count{job="f",http_route="/v1/fetcher",http_response_status_code="503"}`: "0+60x120"},
		"FetcherAPISlow":                    {`http_server_request_duration_seconds_bucket{job="f",http_route="/v1/fetcher",le="0.1"}`: "0+500x120"},
		"FetcherNotReady":                   {`fetcher_readyz_check{job="f",check="queue"}`: "0x120"},
		"FetcherControlStateUnknown":        {`fetcher_queue_depth{job="f",state="available"}`: "gone"},
		"FetcherIdentityUnavailable":        {`fetcher_auth_tokens_total{job="f",result="unavailable"}`: "0+1x120"},
		"FetcherKeysStale":                  {`fetcher_auth_key_refreshes_total{job="f",result="failed"}`: "0+1x120"},
		"FetcherTokensRefused":              {`fetcher_auth_tokens_total{job="f",result="signature"}`: "0+900x120"},
		"FetcherTenantPoolsFail":            {`fetcher_tenant_pool_opens_total{job="f",outcome="failed"}`: "0+6x120"},
		"FetcherTenantPoolsThrash":          {`fetcher_tenant_pool_unlinked_total{job="f",reason="evicted"}`: "0+100x120"},
		"FetcherTenantConnectionsExhausted": {`fetcher_tenant_pool_wait_time_seconds_total{job="f",tenant="acme"}`: "0+400x120"},
		"FetcherQueueOld":                   {`fetcher_queue_age_seconds{job="f"}`: "400x120"},
		"FetcherQueueStuck": {
			`fetcher_jobs_running{job="f",instance="a"}`: "0x120", `fetcher_jobs_finished_total{job="f",outcome="completed"}`: "7x120",
			`fetcher_jobs_finished_total{job="f",outcome="failed",code="FET-1030"}`: "0x120", `fetcher_jobs_finished_total{job="f",outcome="failed",code="FET-1025"}`: "0x120",
		},
		"FetcherJobsFail":           {`fetcher_jobs_finished_total{job="f",outcome="failed",code="FET-1030"}`: "0+10x120"},
		"FetcherJobsRetry":          {`fetcher_jobs_retries_total{job="f",code="FET-1040"}`: "0+2x120"},
		"FetcherLeaseTakeovers":     {`fetcher_jobs_takeovers_total{job="f"}`: "0+1x120"},
		"FetcherSourcesUnreachable": {`fetcher_source_duration_seconds_count{job="f",kind="POSTGRESQL",operation="open",outcome="auth"}`: "0+20x120"},
		"FetcherStorageErrors":      {`gocloud_dev_blob_latency_milliseconds_count{job="f",gocdk_status="Unknown"}`: "0+1x120"},
		"FetcherEventsLate":         {`fetcher_outbox_lag_seconds{job="f"}`: "400x120"},
		"FetcherEventsParked":       {`fetcher_outbox_parked{job="f"}`: "2x120"},
		"FetcherEventsUnrouted":     {`fetcher_events_deliveries_total{job="f",outcome="unrouted"}`: "0+1x120"},
		"FetcherDocumentsFail":      {`fetcher_document_fetches_total{job="f",code="FETCH_FAILED"}`: "0+30x120"},
		"FetcherDown":               {`up{job="f",instance="a"}`: "0x120"},
		"FetcherRestarts":           {`process_start_time_seconds{job="f",instance="a"}`: "0+600x120"},
		"FetcherFileDescriptors":    {`process_open_fds{job="f",instance="a"}`: "1000x120"},
	}
}

// TestAlertsFire: each alert is true for its own illness, and false for health and for the illnesses of others that it
// has nothing to do with.
func TestAlertsFire(t *testing.T) {
	t.Parallel()
	groups, errs := rulefmt.ParseFile("../../charts/fetcher/alerts/fetcher.yaml", false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.Default())
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	rules, cases := map[string]string{}, ill()
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			rules[rule.Alert] = rule.Expr
			if cases[rule.Alert] == nil {
				t.Errorf("%s has no case", rule.Alert)
			}
		}
	}
	cases["health"] = nil
	for name, changes := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			firing := evaluate(t, series(t, changes), rules)
			if name != "health" && !firing[name] {
				t.Errorf("it does not fire")
			}
			delete(firing, name)
			if len(firing) > 0 {
				t.Errorf("these fire, too: %v", firing)
			}
		})
	}
}

func series(t *testing.T, changes map[string]string) string {
	t.Helper()
	lines, left := "load 1m\n", len(changes)
	for line := range strings.Lines(strings.TrimSpace(healthy)) {
		name, values, _ := strings.Cut(strings.TrimSpace(line), " ")
		if change, ok := changes[name]; ok {
			values, left = change, left-1
		}
		if values != "gone" {
			lines += fmt.Sprintf("  %s %s\n", name, values)
		}
	}
	if left != 0 {
		t.Fatalf("changes of series that are not there: %v", changes)
	}
	return lines
}

// evaluate returns the alerts whose expression holds after an hour and a half. How long it must hold is not waited for.
func evaluate(t *testing.T, load string, rules map[string]string) map[string]bool {
	t.Helper()
	storage := promqltest.LoadedStorage(t, load)
	engine := promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery)
	firing := map[string]bool{}
	for alert, expr := range rules {
		query, err := engine.NewInstantQuery(t.Context(), storage, nil, expr, time.Unix(0, 0).Add(90*time.Minute))
		if err != nil {
			t.Fatalf("%s: %v", alert, err)
		}
		result := query.Exec(t.Context())
		vector, err := result.Vector()
		if err != nil {
			t.Fatalf("%s: %v", alert, err)
		}
		if len(vector) > 0 {
			firing[alert] = true
		}
	}
	return firing
}
