package auth

import (
	"crypto/sha256"
	"fmt"
	"time"
	"unsafe"

	lru "github.com/hashicorp/golang-lru/v2"
)

// shardCount spreads a cache over as many locks, so that cores seldom meet at one.
const shardCount = 16

// digest is the SHA-256 of a token: caches know tokens by it.
type digest [sha256.Size]byte

// digestOf hashes a token in place: a copy of it at every request would be the only allocation on that path.
func digestOf(token string) digest {
	return sha256.Sum256(unsafe.Slice(unsafe.StringData(token), len(token))) //nolint:gosec // Sum256 only reads
}

func (d digest) shard() int { return int(d[0]) % shardCount }

// shardedKey is a key that knows its shard. Digests are evenly spread, so their first byte will do.
type shardedKey interface {
	comparable
	shard() int
}

// cache is a bounded LRU whose entries end at a time of their own.
type cache[K shardedKey, V any] struct {
	shards [shardCount]*lru.Cache[K, cached[V]]
}

type cached[V any] struct {
	value V
	until int64 // Unix nanoseconds
}

// newCache returns a cache of about size entries.
func newCache[K shardedKey, V any](size int) (*cache[K, V], error) {
	c := &cache[K, V]{}
	for i := range c.shards {
		shard, err := lru.New[K, cached[V]]((size + shardCount - 1) / shardCount)
		if err != nil {
			return nil, fmt.Errorf("make cache: %w", err)
		}
		c.shards[i] = shard
	}
	return c, nil
}

// get returns the value of key if it has not ended at now.
func (c *cache[K, V]) get(key K, now time.Time) (V, bool) {
	e, ok := c.shards[key.shard()].Get(key)
	if !ok || now.UnixNano() >= e.until {
		var none V
		return none, false
	}
	return e.value, true
}

// put keeps the value until the given time.
func (c *cache[K, V]) put(key K, value V, until time.Time) {
	c.shards[key.shard()].Add(key, cached[V]{value: value, until: until.UnixNano()})
}
