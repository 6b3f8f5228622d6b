package postgres

import (
	"context"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fetcherhq/fetcher/source"
	"github.com/fetcherhq/fetcher/source/form"
)

// typeRow is a type as the server lists it.
type typeRow struct {
	oid           uint32
	schema, name  string
	class         byte // typtype: base, composite, domain, enum, range, …
	notNull       bool
	modifier      int
	array         uint32
	delim         byte
	base, element uint32
	labels        []string
	attributes    []string
	attributeOIDs []uint32
	moneyScale    int
}

// types makes the types of a catalogue, each once.
type types struct {
	rows map[uint32]typeRow
	made map[uint32]*typ
}

// readTypes reads the types of the columns and what they are made of.
func (s *session) readTypes(ctx context.Context, columns map[uint32][]columnRow) (*types, error) {
	used := make(map[uint32]struct{})
	for _, rows := range columns {
		for _, r := range rows {
			used[r.oid] = struct{}{}
		}
	}
	set := &types{rows: make(map[uint32]typeRow), made: make(map[uint32]*typ)}
	params := [][]byte{oidArray(slices.Collect(maps.Keys(used)))}
	err := s.query(ctx, "list types", typesSQL, params, func(row [][]byte) {
		r := typeRow{
			oid: oid(row[0]), schema: string(row[1]), name: string(row[2]), class: first(row[3]),
			notNull: isTrue(row[4]), modifier: integer(row[5]), array: oid(row[6]), delim: first(row[7]),
			base: oid(row[8]), element: oid(row[9]),
			labels: parseTexts(row[10]), attributes: parseTexts(row[11]), moneyScale: integer(row[13]),
		}
		for _, text := range parseTexts(row[12]) {
			r.attributeOIDs = append(r.attributeOIDs, oid([]byte(text)))
		}
		set.rows[r.oid] = r
	})
	return set, err
}

func first(b []byte) byte {
	if len(b) == 0 {
		return 0
	}
	return b[0]
}

// base follows domains to the type that they restrict, with its modifier and whether one of them forbids null.
func (s *types) base(oid uint32, modifier int) (base uint32, baseModifier int, notNull bool) {
	for r, ok := s.rows[oid]; ok && r.class == 'd'; r, ok = s.rows[oid] {
		notNull = notNull || r.notNull
		if modifier < 0 {
			modifier = r.modifier
		}
		oid = r.base
	}
	return oid, modifier, notNull
}

// of returns the type with the given number, domains as what they restrict.
func (s *types) of(oid uint32) *typ {
	oid, _, _ = s.base(oid, -1)
	if t, ok := s.made[oid]; ok {
		return t
	}
	t := new(typ)
	s.made[oid] = t // before its parts are made, should they ever lead back to it
	*t = s.make(s.rows[oid], oid)
	return t
}

// ofColumn is of, for values that are compared. The operators of enums don't take their domains.
func (s *types) ofColumn(oid uint32) *typ {
	t := s.of(oid)
	if t.family != source.FamilyEnum || t.oid == oid {
		return t
	}
	domain, ok := s.made[oid] // where of leaves nothing, for it goes by the base types
	if !ok {
		r := s.rows[t.oid]
		domain = new(typ)
		*domain = *t
		domain.cast = quoteIdent(r.schema) + "." + quoteIdent(r.name)
		s.made[oid] = domain
	}
	return domain
}

func (s *types) make(r typeRow, oid uint32) typ {
	t, ok := builtin(oid)
	if !ok {
		t = s.compound(r, oid)
	}
	if t.compareAll == 0 {
		t.compareAll = r.array
	}
	t.scale = r.moneyScale
	return t
}

// compound makes the types that are described by the catalogue alone.
func (s *types) compound(r typeRow, oid uint32) typ {
	t := typ{oid: oid, text: kindText, family: source.FamilyOther, compareAs: oid}
	switch {
	case r.class == 'e':
		t.family, t.labels = source.FamilyEnum, r.labels
	case r.class == 'c':
		t.text, t.family = kindComposite, source.FamilyComposite
		for i, name := range r.attributes {
			key := append(form.AppendString(nil, []byte(name)), ':')
			t.fields = append(t.fields, field{key: string(key), typ: s.of(r.attributeOIDs[i])})
		}
	case r.element != 0:
		t.text, t.family = kindArray, source.FamilyArray
		t.element, t.delim = s.of(r.element), s.rows[r.element].delim
	case r.class == 'b' && r.name == "citext":
		t.family, t.operators = source.FamilyText, r.schema
	case oid == pgtype.UnknownOID:
		t.family, t.compareAs, t.compareAll = source.FamilyText, pgtype.TextOID, pgtype.TextArrayOID
	}
	return t
}
