package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fetcherhq/fetcher/source"
)

const defaultSchema = "public"

// Catalog lists the tables of the scope, in the snapshot if one has begun. A scope without a schema is that of the
// connection. A scope with tables lists those that one of the names stands for, so that a name which is ambiguous
// stays so.
func (s *session) Catalog(ctx context.Context, scope source.Scope) (*source.Catalog, error) {
	if s.begun {
		return s.readCatalog(ctx, scope)
	}
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	catalog, err := s.readCatalog(ctx, scope)
	if end := s.run(ctx, "end", "ROLLBACK"); err == nil && end != nil {
		return nil, end
	}
	return catalog, err
}

func (s *session) readCatalog(ctx context.Context, scope source.Scope) (*source.Catalog, error) {
	only := scope.Schema
	if only == "" {
		only = s.schema
	}
	catalog, oids, err := s.readTables(ctx, only, scope.Tables)
	if err != nil || len(catalog.Tables) == 0 {
		return catalog, err
	}
	rows, err := s.readColumns(ctx, oids)
	if err != nil {
		return nil, err
	}
	types, err := s.readTypes(ctx, rows)
	if err != nil {
		return nil, err
	}
	for i := range catalog.Tables {
		t := &catalog.Tables[i]
		t.Columns = columnsOf(rows[oids[tableKey{t.Schema, t.Base}]], types)
	}
	return catalog, nil
}

// tableKey identifies a table.
type tableKey struct{ schema, base string }

// readTables returns the tables without their columns, and their numbers.
func (s *session) readTables(ctx context.Context, only string, names []string) (*source.Catalog, map[tableKey]uint32, error) {
	schema, wanted := []byte(nil), []byte(nil)
	bare := defaultSchema
	if only != "" {
		bare, schema = only, []byte(only)
	}
	if len(names) > 0 {
		wanted = textArray(baseNames(names))
	}
	var tables []source.Table
	oids := make(map[tableKey]uint32)
	err := s.query(ctx, "list tables", tablesSQL, [][]byte{schema, wanted}, func(row [][]byte) {
		t := source.Table{Schema: string(row[1]), Base: string(row[2])}
		tables = append(tables, t)
		oids[tableKey{t.Schema, t.Base}] = oid(row[0])
	})
	if err != nil {
		return nil, nil, err
	}
	catalog := source.NewCatalog(bare, tables)
	if len(names) > 0 {
		catalog.Tables = slices.DeleteFunc(catalog.Tables, func(t source.Table) bool {
			return !slices.ContainsFunc(names, func(name string) bool {
				return strings.EqualFold(t.Name, name) || strings.EqualFold(t.Schema+"."+t.Base, name)
			})
		})
		kept := make(map[tableKey]uint32, len(catalog.Tables))
		for _, t := range catalog.Tables {
			key := tableKey{t.Schema, t.Base}
			kept[key] = oids[key]
		}
		oids = kept
	}
	return catalog, oids, nil
}

// baseNames returns what the names may stand for without a schema, in lower case: every part after a dot, for schemas
// and tables may have dots too.
func baseNames(names []string) []string {
	var out []string
	for _, name := range names {
		name = lowerASCII(name)
		out = append(out, name)
		for i := range len(name) {
			if name[i] == '.' {
				out = append(out, name[i+1:])
			}
		}
	}
	return out
}

func lowerASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// columnRow is a column as the server lists it.
type columnRow struct {
	name, typeName string
	oid            uint32
	modifier       int
	notNull, key   bool
}

// readColumns returns the columns of the tables by the table's number.
func (s *session) readColumns(ctx context.Context, oids map[tableKey]uint32) (map[uint32][]columnRow, error) {
	columns := make(map[uint32][]columnRow, len(oids))
	names := make(map[string]string) // few types, many columns
	params := [][]byte{oidArray(slices.Collect(maps.Values(oids)))}
	err := s.query(ctx, "list columns", columnsSQL, params, func(row [][]byte) {
		table := oid(row[0])
		typeName, ok := names[string(row[6])]
		if !ok {
			typeName = string(row[6])
			names[typeName] = typeName
		}
		columns[table] = append(columns[table], columnRow{
			name: string(row[1]), oid: oid(row[2]), modifier: integer(row[3]),
			notNull: isTrue(row[4]), key: isTrue(row[5]), typeName: typeName,
		})
	})
	return columns, err
}

func columnsOf(rows []columnRow, types *types) []source.Column {
	columns := make([]source.Column, len(rows))
	for i, r := range rows {
		_, modifier, notNull := types.base(r.oid, r.modifier)
		t := types.ofColumn(r.oid)
		c := source.Column{
			Name: r.name, Type: r.typeName, Family: t.family, Position: i + 1,
			Nullable: !r.notNull && !notNull, PrimaryKey: r.key,
			Bits: t.bits, Unsigned: t.oid == pgtype.OIDOID, Fraction: t.digits, Wide: t.wide,
			Labels: t.labels, Native: t,
		}
		switch t.oid {
		case pgtype.NumericOID:
			c.Precision, c.Scale = numericModifier(modifier)
		case moneyOID:
			c.Scale = t.scale
		}
		columns[i] = c
	}
	return columns
}

// numericModifier takes a type modifier of numeric apart; the scale has eleven bits with a sign.
func numericModifier(modifier int) (precision, scale int) {
	const header, scaleBits = 4, 11
	if modifier < header {
		return 0, 0
	}
	modifier -= header
	scale = modifier & (1<<scaleBits - 1)
	if scale >= 1<<(scaleBits-1) {
		scale -= 1 << scaleBits
	}
	return modifier >> 16 & 0xffff, scale
}

// query runs a catalogue query with text parameters and hands its rows over. They are valid during the call only.
func (s *session) query(ctx context.Context, operation, sql string, params [][]byte, visit func(row [][]byte)) error {
	if err := s.usable(); err != nil {
		return err
	}
	rows := s.conn.ExecParams(ctx, sql, params, nil, nil, nil)
	for rows.NextRow() {
		visit(rows.Values())
	}
	if _, err := rows.Close(); err != nil {
		return classify(ctx, fmt.Errorf("%s: %w", operation, err), false)
	}
	return nil
}

// oid and its like read what the server's catalogue holds, in its text form.
func oid(b []byte) uint32 {
	n, _ := strconv.ParseUint(string(b), 10, 32)
	return uint32(n)
}

func integer(b []byte) int {
	n, _ := strconv.Atoi(string(b))
	return n
}

func isTrue(b []byte) bool { return string(b) == "t" }

func oidArray(oids []uint32) []byte {
	out := []byte{'{'}
	for i, o := range oids {
		if i > 0 {
			out = append(out, ',')
		}
		out = strconv.AppendUint(out, uint64(o), 10)
	}
	return append(out, '}')
}
