package store

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/fetcherhq/fetcher/problem"
)

// ConnectionRef is a connection as it was read.
type ConnectionRef struct {
	ID       uuid.UUID
	Revision int64
}

// Holding returns the queries with CreateOnce making sure that the connections a job reads are still as they were when
// the job was checked, and keeping them so until it is stored; FET-0004 when one was changed or deleted meanwhile.
// Together with Connections.Change no job slips in beside a change.
func (s Jobs) Holding(refs []ConnectionRef) Jobs {
	s.holding = slices.Clone(refs)
	slices.SortFunc(s.holding, func(a, b ConnectionRef) int { return cmp.Compare(a.ID.String(), b.ID.String()) })
	return s
}

// Then returns the queries with also run in the transaction in which CreateOnce stores a job, after its row is
// written: when it fails nothing is stored. It does not run for a duplicate.
func (s Jobs) Then(also func(Idempotency, *Job) error) Jobs {
	s.then = also
	return s
}

// jobRow adds what is stored for searching only.
type jobRow struct {
	Job

	Datasources textArray
}

// hold locks the connections against change, in one order for everybody.
func (s Jobs) hold(tx *gorm.DB) error {
	for _, ref := range s.holding {
		var found []Connection
		err := tx.Clauses(clause.Locking{Strength: clause.LockingStrengthShare}).Select("id").
			Where("id = ? AND revision = ? AND deleted_at IS NULL", ref.ID, ref.Revision).Find(&found).Error
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return problem.New(problem.Conflict, "a datasource was changed while the job was being created").After(changedRetry)
		}
	}
	return nil
}

// datasourceNames lists the datasources in the text of mappedFields, without those that a text column can't hold: no
// connection can be called so.
func datasourceNames(mappedFields []byte) (textArray, error) {
	names := textArray{}
	var byName map[string]json.RawMessage
	if err := json.Unmarshal(mappedFields, &byName); err != nil {
		return nil, fmt.Errorf("read mapped fields: %w", err)
	}
	for name := range byName {
		if !strings.Contains(name, "\x00") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}
