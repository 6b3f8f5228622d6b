package sourcetest

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// testSnapshot moves from one table to another all the time: every snapshot must hold the same sum.
func (b Backend) testSnapshot(t *testing.T) {
	b.needs(t, Snapshot)
	d := b.New(t)
	column := []Column{{"n", Integer}}
	full := Table{Name: "torn_a", Columns: column}
	for range 10 {
		full.Rows = append(full.Rows, []string{"1000000"})
	}
	d.Create(t, full, Table{Name: "torn_b", Columns: column, Rows: [][]string{{"0"}}})
	ctx, stop := context.WithCancel(context.Background())
	written := make(chan error, 1)
	go func() {
		var err error
		for ctx.Err() == nil && err == nil {
			err = d.Transfer(context.Background())
			time.Sleep(time.Millisecond) // leave the machine to the others
		}
		written <- err
	}()
	defer func() {
		stop()
		if err := <-written; err != nil {
			t.Errorf("the writer: %v", err)
		}
	}()
	states := map[int]bool{}
	start := time.Now()
	for i := 0; i < 10 || len(states) < 2; i++ {
		if time.Since(start) > patience {
			t.Fatal("nothing is written meanwhile")
		}
		states[b.sum(t, d)] = true
	}
}

// sum checks one snapshot and returns what it holds of the second table.
func (b Backend) sum(t *testing.T, d Database) int {
	t.Helper()
	s, catalog := b.begin(t, d.Params)
	sums := map[string]int{}
	for _, table := range []string{"torn_a", "torn_b", "torn_a"} {
		sums[table] = 0
		for _, row := range Read(t, s, catalog, table, []string{"n"}) {
			var n int
			if _, err := fmt.Sscanf(row, `{"n":%d}`, &n); err != nil {
				t.Fatal(err)
			}
			sums[table] += n
		}
	}
	if sum := sums["torn_a"] + sums["torn_b"]; sum != 10_000_000 {
		t.Fatalf("torn: %d", sum)
	}
	_ = s.Close()
	return sums["torn_b"]
}
