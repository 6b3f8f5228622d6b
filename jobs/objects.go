package jobs

import (
	"encoding/json"
	"fmt"

	"github.com/fetcherhq/fetcher/extract"
	"github.com/fetcherhq/fetcher/store"
)

// ResultKeys lists the keys of the objects a completed job's result consists of: those of its tables, if each has one, and
// last that of the document or the manifest. Deleted in this order, nothing is ever left that no key leads to.
func ResultKeys(job *store.Job) ([]string, error) {
	if job.ResultPath == nil {
		return nil, nil
	}
	var tables []extract.TableFacts
	if len(job.ResultTables) > 0 {
		if err := json.Unmarshal(job.ResultTables, &tables); err != nil {
			return nil, fmt.Errorf("read the tables of job %s: %w", job.ID, err)
		}
	}
	var keys []string
	for _, t := range tables {
		if t.Path != "" {
			keys = append(keys, t.Path)
		}
	}
	return append(keys, *job.ResultPath), nil
}
