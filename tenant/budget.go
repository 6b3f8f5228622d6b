package tenant

import (
	"errors"
	"sync"
)

// errHostSpent says that an address has as many connections as it may have.
var errHostSpent = errors.New("tenant: the database host has no connection left in the budget")

// budget counts the connections that are open, or being opened, to each address, over all tenants.
type budget struct {
	limit int

	mu   sync.Mutex
	open map[string]int
}

func newBudget(limit int) *budget { return &budget{limit: limit, open: map[string]int{}} }

// take adds a connection to the address and reports whether that stays within the limit.
func (b *budget) take(address string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open[address] >= b.limit {
		return false
	}
	b.open[address]++
	return true
}

// give takes the connection off again.
func (b *budget) give(address string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open[address]--; b.open[address] <= 0 {
		delete(b.open, address)
	}
}

// used returns how many connections the address has.
func (b *budget) used(address string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open[address]
}
