package mongodb

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fetcherhq/fetcher/source"
)

const (
	idField = "_id"

	// Documents of a sample from each end and at random: of every collection, and of those that are named.
	sampleAll   = 100
	sampleNamed = 500

	// sampleBytes bounds what is read of each part of a sample.
	sampleBytes = 4 << 20

	// sampleTime bounds the random choice, and probeTime the search for a field that the sample did not show.
	sampleTime = 5 * time.Second
	probeTime  = 5 * time.Second
	probeLimit = 20
)

// collection is what the server lists of a collection or view.
type collection struct {
	name string
	kind string
}

// Catalog lists the collections and views of the database that the user may read. Their columns come from samples: two
// or three reads for each. A scope's schema is the database to list.
func (s *session) Catalog(ctx context.Context, scope source.Scope) (*source.Catalog, error) {
	if err := s.usable(); err != nil {
		return nil, err
	}
	if err := checkDatabase(scope.Schema, nil); err != nil {
		return source.NewCatalog(scope.Schema, nil), nil //nolint:nilerr // no database has the name
	}
	database := cmp.Or(scope.Schema, s.in())
	found, err := s.list(ctx, &database)
	if err != nil {
		return nil, s.failed(ctx, "list collections", err, true)
	}
	tables := make([]source.Table, 0, len(found))
	for _, c := range found {
		tables = append(tables, source.Table{Schema: database, Base: c.name})
	}
	wanted := inScope(source.NewCatalog(database, tables), scope)
	size := sampleNamed
	if len(scope.Tables) == 0 {
		size = sampleAll
	}
	tables = tables[:0:0]
	for _, t := range wanted {
		kind := found[slices.IndexFunc(found, func(c collection) bool { return c.name == t.Base })].kind
		columns, err := s.columns(ctx, collection{t.Base, kind}, database, size, t.fields)
		if server := serverError(err); server != nil && server.Code == codeUnauthorized && len(scope.Tables) == 0 {
			continue // listed, but not readable
		}
		if err != nil {
			return nil, s.failed(ctx, "sample", err, false)
		}
		tables = append(tables, source.Table{Schema: database, Base: t.Base, Columns: columns})
	}
	return source.NewCatalog(database, tables), nil
}

// wantedTable is a table to describe, and the fields that a request names of it.
type wantedTable struct {
	*source.Table

	fields []string
}

// inScope returns the tables that a scope's names can mean, each once.
func inScope(c *source.Catalog, scope source.Scope) []wantedTable {
	var wanted []wantedTable
	for i := range c.Tables {
		t := wantedTable{Table: &c.Tables[i]}
		named := len(scope.Tables) == 0
		for _, name := range scope.Tables {
			if means(t.Table, name) {
				named = true
				t.fields = append(t.fields, scope.Fields[name]...)
			}
		}
		if named {
			wanted = append(wanted, t)
		}
	}
	return wanted
}

// means reports whether a name can stand for the table: the catalogue that is built of all such tables settles which.
func means(t *source.Table, name string) bool {
	return strings.EqualFold(t.Name, name) || strings.EqualFold(t.Schema+"."+t.Base, name)
}

// listCommand lists what the user may see, by any right.
func listCommand() bson.D {
	return bson.D{{Key: "listCollections", Value: 1}, {Key: "nameOnly", Value: true}, {Key: "authorizedCollections", Value: true}}
}

// list returns the collections of a database, in name order; of the session's, if none is given. What the server keeps
// for itself has names that it lets nobody else use.
func (s *session) list(ctx context.Context, database *string) ([]collection, error) {
	in := s.in()
	if database != nil {
		in = *database
	}
	var found []collection
	_, err := s.read(ctx, in, listCommand(), func(doc bson.Raw) (bool, error) {
		name, ok := doc.Lookup("name").StringValueOK()
		if !ok {
			return false, errors.New("a collection without a name")
		}
		kind, _ := doc.Lookup("type").StringValueOK()
		if !strings.HasPrefix(name, "system.") {
			found = append(found, collection{name, kind})
		}
		return true, nil
	})
	slices.SortFunc(found, func(a, b collection) int { return strings.Compare(a.name, b.name) })
	return found, err
}

// columns reads a sample of c and what fields name beyond it.
func (s *session) columns(ctx context.Context, c collection, database string, size int, fields []string) ([]source.Column, error) {
	tree := newTree()
	reader := sampler{session: s, database: database, collection: c, tree: tree}
	if err := reader.sample(ctx, size); err != nil {
		return nil, err
	}
	for _, name := range fields {
		if tree.has(name) || name == source.AllColumns {
			continue
		}
		if err := reader.probe(ctx, name); err != nil {
			return nil, err
		}
	}
	return tree.columns(), nil
}

// sampler adds documents of one collection to a tree.
type sampler struct {
	*session

	database   string
	collection collection
	tree       *tree
}

// sample reads the first and the last documents by _id, and as many at random if those were not all. A view has no
// order that comes for free, so that of it only the first ones are read.
func (s sampler) sample(ctx context.Context, size int) error {
	if s.collection.kind == "view" {
		_, err := s.take(ctx, bson.D{{Key: keyFind, Value: s.collection.name}, {Key: keyLimit, Value: size}})
		return err
	}
	for _, order := range []int{1, -1} {
		n, err := s.take(ctx, bson.D{
			{Key: keyFind, Value: s.collection.name},
			{Key: "sort", Value: bson.D{{Key: idField, Value: order}}}, {Key: keyLimit, Value: size},
		})
		if err != nil || n < size {
			return err
		}
	}
	limited, cancel := context.WithTimeout(ctx, sampleTime)
	defer cancel()
	_, err := s.take(limited, bson.D{
		{Key: "aggregate", Value: s.collection.name},
		{Key: "pipeline", Value: bson.A{bson.D{{Key: "$sample", Value: bson.D{{Key: "size", Value: size}}}}}},
	})
	if serverError(err) != nil || (limited.Err() != nil && ctx.Err() == nil) {
		return nil // the two ends have to do: not every server can choose, or in time
	}
	return err
}

// take adds the documents of a cursor to the tree, as long as they are not too many bytes, and counts them.
func (s sampler) take(ctx context.Context, command bson.D) (int, error) {
	n, size := 0, 0
	_, err := s.read(ctx, s.database, command, func(doc bson.Raw) (bool, error) {
		n, size = n+1, size+len(doc)
		return size < sampleBytes, s.tree.add(doc)
	})
	if size >= sampleBytes { // there may be more
		n = sampleNamed
	}
	return n, err
}

// probe looks for documents that have the field, and adds what they have there to the tree. A search that takes too
// long finds nothing.
func (s sampler) probe(ctx context.Context, name string) error {
	path := strings.Split(name, ".")
	if odd(path) {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	_, err := s.read(limited, s.database, bson.D{
		{Key: keyFind, Value: s.collection.name},
		{Key: keyFilter, Value: bson.D{{Key: name, Value: bson.D{{Key: "$exists", Value: true}}}}},
		{Key: keyProjection, Value: bson.D{{Key: path[0], Value: 1}}}, {Key: keyLimit, Value: probeLimit},
	}, func(doc bson.Raw) (bool, error) { return true, s.tree.add(doc) })
	if limited.Err() != nil && ctx.Err() == nil {
		return nil
	}
	return err
}
