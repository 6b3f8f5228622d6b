package mongodb

// The server's words in commands and queries.
const (
	keyFind       = "find"
	keyFilter     = "filter"
	keyLimit      = "limit"
	keyProjection = "projection"
	keyBatchSize  = "batchSize"
	keyConcern    = "readConcern"
	keyLevel      = "level"
	keyAnd        = "$and"
	keyType       = "$type"
)
