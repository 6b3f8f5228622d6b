package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/testkit/blackbox"
)

// jobRequest is a good request with changes: in the data request, or of the whole.
func jobRequest(t *testing.T, datasource string, dataRequest, whole object) string {
	t.Helper()
	data := object{"mappedFields": object{datasource: object{"order": []string{"select"}}}}
	maps.Copy(data, dataRequest)
	out := object{"dataRequest": data, "metadata": object{"source": ledger, "unique": unique("job")}}
	for name, value := range whole {
		out[name] = value
		if value == nil {
			delete(out, name)
		}
	}
	return text(t, out)
}

// testJobs is section 7, but for what needs a running job.
func testJobs(t *testing.T, s *apiSuite) {
	c := s.admin()
	kept := c.create(t, ledger, nil)
	n := kept.ConfigName
	mapped := func(v any) string { return jobRequest(t, n, object{"mappedFields": v}, nil) }
	filtered := func(v any) string { return jobRequest(t, n, object{"filters": v}, nil) }
	on := func(field string, condition any) string {
		return filtered(object{n: object{"order": object{field: condition}}})
	}
	many := func(count int) object {
		out := object{}
		for range count {
			out[unique("x")] = []string{"f"}
		}
		return out
	}
	manySources := object{}
	for range 11 {
		manySources[unique("x")] = object{"t": []string{"f"}}
	}
	manyFields := make([]string, 51)
	conditions := object{}
	for i := range manyFields {
		manyFields[i] = fmt.Sprint("f", i)
		conditions[manyFields[i]] = object{"eq": []int{1}}
	}
	for name, tc := range map[string]struct{ body, code string }{
		"empty":                  {"", "FET-0001"},
		"empty object":           {"{}", "FET-0001"},
		"null in mappedFields":   {mapped(nil), "FET-0402"},
		"mappedFields an array":  {mapped([]int{}), "FET-0001"},
		"tables an array":        {mapped(object{n: []int{}}), "FET-0001"},
		"tables null":            {mapped(object{n: nil}), "FET-0001"},
		"fields null":            {mapped(object{n: object{"order": nil}}), "FET-0001"},
		"fields a string":        {mapped(object{n: object{"order": "select"}}), "FET-0001"},
		"a field a number":       {mapped(object{n: object{"order": []int{1}}}), "FET-0001"},
		"a field null":           {mapped(object{n: object{"order": []any{nil}}}), "FET-0001"},
		"filters an array":       {filtered([]int{}), "FET-0001"},
		"operator no array":      {on("select", object{"eq": 1}), "FET-0001"},
		"condition a string":     {on("select", "x"), "FET-0001"},
		"dataRequest a string":   {jobRequest(t, n, nil, object{"dataRequest": "x"}), "FET-0001"},
		"metadata an array":      {jobRequest(t, n, nil, object{"metadata": []int{}}), "FET-0001"},
		"output a string":        {jobRequest(t, n, nil, object{"output": "json"}), "FET-0001"},
		"unknown format":         {jobRequest(t, n, nil, object{"output": object{"format": "xml"}}), "FET-0001"},
		"unknown compression":    {jobRequest(t, n, nil, object{"output": object{"compression": "rar"}}), "FET-0001"},
		"no dataRequest":         {jobRequest(t, n, nil, object{"dataRequest": nil}), "FET-0402"},
		"no metadata":            {jobRequest(t, n, nil, object{"metadata": nil}), "FET-0402"},
		"no mappedFields":        {jobRequest(t, n, nil, object{"dataRequest": object{}}), "FET-0402"},
		"no source":              {jobRequest(t, n, nil, object{"metadata": object{"x": 1}}), "FET-0402"},
		"blank source":           {jobRequest(t, n, nil, object{"metadata": object{"source": "  "}}), "FET-0402"},
		"source a number":        {jobRequest(t, n, nil, object{"metadata": object{"source": 1}}), "FET-0402"},
		"source null":            {jobRequest(t, n, nil, object{"metadata": object{"source": nil}}), "FET-0402"},
		"nothing mapped":         {mapped(object{}), "FET-0401"},
		"no tables":              {mapped(object{n: object{}}), "FET-0401"},
		"no fields":              {mapped(object{n: object{"order": []string{}}}), "FET-0401"},
		"an empty table":         {mapped(object{n: object{"order": []string{"select"}, "customers": []string{}}}), "FET-0401"},
		"blank datasource":       {mapped(object{" ": object{"order": []string{"select"}}}), "FET-0401"},
		"blank table":            {mapped(object{n: object{"": []string{"select"}}}), "FET-0401"},
		"blank field":            {mapped(object{n: object{"order": []string{" "}}}), "FET-0401"},
		"duplicate field":        {mapped(object{n: object{"order": []string{"select", "select"}}}), "FET-0401"},
		"two spellings":          {mapped(object{n: object{"order": []string{"select"}, "public.order": []string{"select"}}}), "FET-0401"},
		"star beside another":    {mapped(object{n: object{"order": []string{"*", "select"}}}), "FET-0401"},
		"11 datasources":         {mapped(manySources), "FET-0401"},
		"21 tables":              {mapped(object{n: many(21)}), "FET-0401"},
		"51 fields":              {mapped(object{n: object{"order": manyFields}}), "FET-0401"},
		"51 conditions":          {filtered(object{n: object{"order": conditions}}), "FET-0401"},
		"unmapped datasource":    {filtered(object{"other": object{"order": object{"select": object{"eq": []int{1}}}}}), "FET-0401"},
		"unmapped table":         {filtered(object{n: object{"customers": object{"id": object{"eq": []int{1}}}}}), "FET-0401"},
		"unknown operator":       {on("select", object{"equals": []int{1}}), "FET-0401"},
		"operator of other case": {on("select", object{"EQ": []int{1}}), "FET-0401"},
		"empty condition":        {on("select", object{}), "FET-0401"},
		"no values":              {on("select", object{"eq": []int{}}), "FET-0401"},
		"gt of two":              {on("select", object{"gt": []int{1, 2}}), "FET-0401"},
		"between of one":         {on("select", object{"between": []int{1}}), "FET-0401"},
		"between of three":       {on("select", object{"between": []int{1, 2, 3}}), "FET-0401"},
		"like of two":            {on("select", object{"like": []string{"a", "b"}}), "FET-0401"},
		"like of a number":       {on("select", object{"like": []int{1}}), "FET-0401"},
		"isNull of a string":     {on("select", object{"isNull": []string{"true"}}), "FET-0401"},
		"isNull of two":          {on("select", object{"isNull": []bool{true, false}}), "FET-0401"},
		"eq of an object":        {on("select", object{"eq": []object{{}}}), "FET-0401"},
		"fraction for integer":   {on("select", object{"eq": []float64{1.5}}), "FET-0401"},
		"word for integer":       {on("select", object{"eq": []string{"one"}}), "FET-0401"},
		"2^63":                   {on("select", object{"eq": []json.Number{"9223372036854775808"}}), "FET-0401"},
		"like on an integer":     {on("select", object{"like": []string{"1%"}}), "FET-0401"},
		"word for a date":        {on("placed", object{"eq": []string{"today"}}), "FET-0401"},
		"eq on an array":         {on("quantities", object{"eq": []int{1}}), "FET-0401"},
		"unknown datasource":     {jobRequest(t, "nowhere", nil, nil), "FET-1020"},
		"other product":          {jobRequest(t, n, nil, object{"metadata": object{"source": "elsewhere"}}), "FET-1016"},
		"unknown table":          {mapped(object{n: object{"nowhere": []string{"*"}}}), "FET-1060"},
		"unknown field":          {mapped(object{n: object{"order": []string{"nope"}}}), "FET-1060"},
		"unknown filter field":   {on("nope", object{"eq": []int{1}}), "FET-1060"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := c.failsAnywhere(t, tc.code, post("/v1/fetcher", tc.body))
			if len(f.Errors) == 0 {
				t.Errorf("no location: %+v", f)
			}
		})
	}
	t.Run("first fault", func(t *testing.T) {
		t.Parallel()
		// Each has every later fault, too.
		unknown := object{"mappedFields": object{"nowhere": object{"t": []string{}}}}
		c.failsAnywhere(t, "FET-0001", post("/v1/fetcher", jobRequest(t, n, object{"mappedFields": 1}, object{"metadata": nil})))
		c.fails(t, "FET-0402", post("/v1/fetcher", jobRequest(t, n, unknown, object{"metadata": nil})), "body.metadata")
		c.failsAnywhere(t, "FET-0401", post("/v1/fetcher", jobRequest(t, n, unknown, object{"metadata": object{"source": " "}})))
		c.fails(t, "FET-0402", post("/v1/fetcher", jobRequest(t, "nowhere", nil, object{"metadata": object{"source": " "}})), "body.metadata.source")
		c.failsAnywhere(t, "FET-1016", post("/v1/fetcher", jobRequest(t, n, object{"mappedFields": object{n: object{"nope": []string{"f"}}}}, object{"metadata": object{"source": "elsewhere"}})))
	})
	t.Run("completed", func(t *testing.T) { testCompletedJob(t, s, n) })
	t.Run("mismatch", func(t *testing.T) {
		t.Parallel()
		body := mapped(object{n: object{"order": []string{"nope"}, "nowhere": []string{"*"}}})
		f := c.failsAnywhere(t, "FET-1060", post("/v1/fetcher", body))
		got := map[string]any{}
		for _, part := range f.Errors {
			got[part.Message] = part.Value
		}
		want := map[string]any{
			"FIELD_NOT_FOUND": object{"dataSourceId": n, "table": "order", "field": "nope"},
			"TABLE_NOT_FOUND": object{"dataSourceId": n, "table": "nowhere"},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

var hexDigest = regexp.MustCompile(`^[0-9a-f]{64}$`)

// testCompletedJob follows one job to its end and looks at all that is told of it.
func testCompletedJob(t *testing.T, s *apiSuite, datasource string) {
	t.Parallel()
	c := s.admin()
	metadata := fmt.Sprintf(`{"source":" Ledger ","unique":%q,"n":1.10,"u":"\u00e9","big":12345678901234567890}`, unique("exact"))
	filters := `{"` + datasource + `":{"order":{"select":{"lte":[10],"ne":[5,"7"]},"customerId":{"isNull":[false]}}}}`
	body := `{"metadata":` + metadata + `,"dataRequest":{"filters":` + filters + `,"mappedFields":{"` + datasource + `":{"order":["select"]}}}}`
	var accepted struct {
		JobID, Status, CreatedAt, Message string
	}
	c.succeeds(t, 202, post("/v1/fetcher", body)).Decode(t, &accepted)
	if accepted.Status != "pending" || accepted.Message == "" || !strings.HasSuffix(accepted.CreatedAt, "Z") || !uuidV7.MatchString(accepted.JobID) {
		t.Errorf("accepted %+v", accepted)
	}
	c.client().AwaitCompleted(t, accepted.JobID, blackbox.StartTimeout)
	var job struct {
		ID, Status             string
		Metadata               json.RawMessage
		MappedFields, Filters  json.RawMessage
		ResultPath, ResultHmac string
		RequestHash            string
		CreatedAt, CompletedAt string
		StartedAt              string
		Attempt                int
		Progress, Error        json.RawMessage
		Result                 struct {
			Format              string
			SizeBytes, RowCount int64
			Sha256              string
			ExpiresAt           string
			Tables              []struct {
				Datasource, Table string
				Rows              int64
			}
		}
	}
	c.succeeds(t, 200, get("/v1/fetcher/"+accepted.JobID)).Decode(t, &job)
	if string(job.Metadata) != metadata {
		t.Errorf("metadata %s\nsent     %s", job.Metadata, metadata)
	}
	if string(job.Filters) != filters || string(job.MappedFields) != `{"`+datasource+`":{"order":["select"]}}` {
		t.Errorf("filters %s, mappedFields %s", job.Filters, job.MappedFields)
	}
	if job.ID != accepted.JobID || job.Status != "completed" || job.CreatedAt != accepted.CreatedAt || job.Attempt != 1 || job.Error != nil {
		t.Errorf("job %+v", job)
	}
	if job.ResultPath != "acme/external-data/"+job.ID+".json" || !hexDigest.MatchString(job.ResultHmac) || !hexDigest.MatchString(job.RequestHash) ||
		!hexDigest.MatchString(job.Result.Sha256) || job.Result.Format != "json" || job.Result.RowCount != 8 {
		t.Errorf("result %+v", job)
	}
	if len(job.Result.Tables) != 1 || job.Result.Tables[0].Datasource != datasource || job.Result.Tables[0].Table != "order" || job.Result.Tables[0].Rows != 8 {
		t.Errorf("tables %+v", job.Result.Tables)
	}
	for name, at := range map[string]string{"startedAt": job.StartedAt, "completedAt": job.CompletedAt, "expiresAt": job.Result.ExpiresAt} {
		if !strings.HasSuffix(at, "Z") || at < job.CreatedAt {
			t.Errorf("%s %q", name, at)
		}
	}
	checkSameRequest(t, c, body, job.ID, job.CreatedAt)
	var events struct {
		Items []struct{ ID, Type, Subject, Tenantid string }
	}
	c.succeeds(t, 200, get("/v1/fetcher/"+job.ID+"/events")).Decode(t, &events)
	if len(events.Items) != 1 || events.Items[0].Type != "fetcher.job.completed" || events.Items[0].Subject != job.ID || events.Items[0].Tenantid != "acme" {
		t.Errorf("events %+v", events)
	}
}

// checkSameRequest: the same request again, however it is written, is the same job; another digit is another.
func checkSameRequest(t *testing.T, c caller, body, id, createdAt string) {
	t.Helper()
	spelled := strings.NewReplacer(`1.10`, `11e-1`, `\u00e9`, `é`, `"unique"`, `"\u0075nique"`, `[10]`, `[ 1.0e1 ]`).Replace(body)
	for _, same := range []string{body, spelled} {
		var again struct{ JobID, Status, CreatedAt, Message string }
		got := c.succeeds(t, 200, post("/v1/fetcher", same))
		got.Decode(t, &again)
		if again.JobID != id || again.Status != "completed" || again.CreatedAt != createdAt || got.Header.Get("Location") != "/v1/fetcher/"+id {
			t.Errorf("again %+v, Location %q", again, got.Header.Get("Location"))
		}
	}
	for _, change := range [][2]string{{`67890}`, `67891}`}, {`"order":["select"]`, `"order":["placed"]`}, {`"7"`, `"8"`}} {
		c.succeeds(t, 202, post("/v1/fetcher", strings.Replace(body, change[0], change[1], 1)))
	}
	// Beyond the window it is a new one.
	c.suite.superuser(t, "fetcher_acme", "UPDATE jobs SET created_at = created_at - interval '5 minutes 1 second' WHERE id = $1", id)
	if c.submit(t, body) == id {
		t.Error("a job of more than 5 minutes ago suppresses")
	}
}

// testBlockedJob is about a job that is running for as long as the test wants.
func testBlockedJob(t *testing.T, s *apiSuite) {
	c := s.admin()
	kept, idle := c.create(t, ledger, nil), c.create(t, ledger, nil)
	id, body, release := c.blocked(t, ledger, kept.ConfigName)
	path := "/v1/fetcher/" + id
	c.fails(t, "FET-1023", get(path+"/result"))
	c.fails(t, "FET-1021", patch(kept.ID, `{"port":1}`))
	c.fails(t, "FET-1021", patch(kept.ID, `{"host":"10.0.0.1","userName":null}`, "If-Match", `"old"`)) // before the rest
	c.fails(t, "FET-0001", patch(kept.ID, `{"port":"1"}`), "body.port")                                // but after the parse
	c.fails(t, "FET-1021", remove(kept.ID, "If-Match", `"old"`))
	c.succeeds(t, 200, patch(idle.ID, `{"port":1}`))
	var again struct{ JobID, Status string }
	c.succeeds(t, 200, post("/v1/fetcher", body)).Decode(t, &again)
	if again.JobID != id || again.Status != "processing" {
		t.Errorf("a second request: %+v", again)
	}
	s.superuser(t, "fetcher_acme", "UPDATE jobs SET created_at = created_at - interval '1 hour' WHERE id = $1", id)
	c.succeeds(t, 200, post("/v1/fetcher", body)) // an active job suppresses beyond the window
	var listed struct{ Items []struct{ ID, Status string } }
	c.succeeds(t, 200, get("/v1/fetcher?status=processing&limit=100")).Decode(t, &listed)
	if !slices.ContainsFunc(listed.Items, func(j struct{ ID, Status string }) bool { return j.ID == id }) {
		t.Errorf("the job is not among those processing: %+v", listed)
	}
	for _, j := range listed.Items {
		if j.Status != "processing" {
			t.Errorf("listed: %+v", j)
		}
	}
	c.succeeds(t, http.StatusAccepted, post(path+"/cancel", ""))
	c.client().Await(t, id, blackbox.StartTimeout, func(j blackbox.Job) bool { return j.Status == "failed" })
	c.fails(t, "FET-1022", post(path+"/cancel", ""))
	var events struct{ Items []struct{ Type string } }
	c.succeeds(t, 200, get(path+"/events")).Decode(t, &events)
	if len(events.Items) != 1 || events.Items[0].Type != "fetcher.job.failed" {
		t.Errorf("events %+v", events)
	}
	c.succeeds(t, 200, patch(kept.ID, `{"metadata":{"a":1}}`))
	release()
	if next := c.submit(t, body); next == id { // a failed job never suppresses
		t.Errorf("the failed job %s suppresses", id)
	}
	c.client().AwaitCompleted(t, c.duplicate(t, body), blackbox.StartTimeout)
}

// duplicate submits a request that was made before and returns its job.
func (c caller) duplicate(t *testing.T, body string) string {
	t.Helper()
	var known struct{ JobID string }
	c.succeeds(t, 200, post("/v1/fetcher", body)).Decode(t, &known)
	return known.JobID
}

// testOneJob: two hundred identical requests at once make one job.
func testOneJob(t *testing.T, s *apiSuite) {
	c := s.admin()
	kept := c.create(t, ledger, nil)
	body := request(t, ledger, kept.ConfigName, "order", "select")
	const many = 200
	var (
		mu    sync.Mutex
		all   sync.WaitGroup
		ids   = map[string]int{}
		fresh int
	)
	start := make(chan struct{})
	for range many {
		all.Go(func() {
			<-start
			got := c.do(t, post("/v1/fetcher", body))
			for got.Status == http.StatusServiceUnavailable { // waits are bounded: on a busy machine a client tries again
				got = c.do(t, post("/v1/fetcher", body))
			}
			var made struct{ JobID string }
			got.Decode(t, &made)
			mu.Lock()
			defer mu.Unlock()
			ids[made.JobID]++
			if got.Status == http.StatusAccepted {
				fresh++
			} else if got.Status != http.StatusOK {
				t.Errorf("%d: %s", got.Status, got.Body)
			}
		})
	}
	close(start)
	all.Wait()
	if len(ids) != 1 || fresh != 1 {
		t.Errorf("%d jobs, %d of them called new: %v", len(ids), fresh, ids)
	}
	for id := range ids {
		c.client().AwaitCompleted(t, id, blackbox.StartTimeout)
	}
}
