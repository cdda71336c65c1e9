package cockroach

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgtype/zeronull"
)

// statement is one that the store sends, by the name of its file in query. The fields of
// A are its arguments; the text says @tenant_id for the field TenantID:
//
//   - What a struct without a name has is a field like others. A struct with a name has its
//     name before those of its fields: @entry_id is ID of Entry.
//   - A slice of structs is an array of each of their fields. The text says @rows.id for
//     one array, and for all of them @rows AS r (id text, fence int8), which are the rows.
//   - @home::crdb_internal_region is the region of the rows, see [query.in].
//
// The text's names and A's fields are compared when a store is opened: see [load].
type statement[A any] struct{ name string }

// in is the statement's text and its arguments as a database is to get them.
func (s statement[A]) in(q queries, args A) (sql string, bound []any) {
	return q[s.name].in(args)
}

// queueStatement is one that every queue has, on its own table.
type queueStatement[A any] struct{ file string }

// of returns the statement of one queue.
func (s queueStatement[A]) of(q queue) statement[A] { return statement[A]{q.statement(s.file)} }

// declaration describes the arguments of a file.
type declaration struct {
	file string
	args reflect.Type
	// also is the name of the file's second statement, whose text is that with .Also; ""
	// where it has one.
	also string
}

// declared are all statements. They are variables of the package, so that this is whole
// before a store is opened.
var declared []declaration

func declare[A any](file string) statement[A] {
	declared = append(declared, declaration{file: file, args: reflect.TypeFor[A]()})
	return statement[A]{file}
}

// declareAlso gives a declared file a second statement.
func declareAlso[A any](file, name string) statement[A] {
	i := slices.IndexFunc(declared, func(d declaration) bool { return d.file == file })
	declared[i].also = name
	return statement[A]{name}
}

func declareOfQueues[A any](file string) queueStatement[A] {
	declare[A](file)
	return queueStatement[A]{file}
}

// argument is where the value of a name is: in a field, or in one field of each struct that
// a field lists.
type argument struct {
	field  []int
	column []int        // nil unless the field is a list
	typ    reflect.Type // of the value, or of those in the list
}

func (a *argument) of(args reflect.Value) any {
	field := args.FieldByIndex(a.field)
	if a.column == nil {
		return field.Interface()
	}
	return arrays[a.typ](field, a.column)
}

// arrays are made of these types, each by a loop of its own: arguments of 64 claims are
// bound here, and setting their values by reflection takes twice the time. [arrayCodec]
// knows each of these types.
var arrays = map[reflect.Type]func(list reflect.Value, column []int) any{
	reflect.TypeFor[string]():               array[string],
	reflect.TypeFor[[]byte]():               array[[]byte],
	reflect.TypeFor[bool]():                 array[bool],
	reflect.TypeFor[int16]():                array[int16],
	reflect.TypeFor[int32]():                array[int32],
	reflect.TypeFor[int64]():                array[int64],
	reflect.TypeFor[uuid.UUID]():            array[uuid.UUID],
	reflect.TypeFor[time.Time]():            array[time.Time],
	reflect.TypeFor[time.Duration]():        array[time.Duration],
	reflect.TypeFor[zeronull.Timestamptz](): array[zeronull.Timestamptz],
}

func array[V any](list reflect.Value, column []int) any {
	all := make(pgtype.FlatArray[V], list.Len()) // never nil, which would be NULL
	for i := range all {
		all[i] = *list.Index(i).FieldByIndex(column).Addr().Interface().(*V)
	}
	return all
}

// argumentsOf returns a struct's arguments, by name.
func argumentsOf(t reflect.Type) map[string]*argument {
	all := map[string]*argument{}
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous || !f.IsExported() {
			continue
		}
		name, within, many := snake(f.Name), f.Type, false
		if within.Kind() == reflect.Slice {
			within, many = within.Elem(), true
		}
		var fields map[string]*argument
		if within.Kind() == reflect.Struct {
			fields = argumentsOf(within) // none of what is a value, such as a time
		}
		for of, a := range fields {
			if many {
				all[name+"."+of] = &argument{f.Index, a.field, a.typ}
			} else {
				all[name+"_"+of] = &argument{slices.Concat(f.Index, a.field), nil, a.typ}
			}
		}
		if len(fields) == 0 {
			all[name] = &argument{f.Index, nil, f.Type}
		}
	}
	return all
}

// snake is how a text writes the name of a field: tenant_id of TenantID.
func snake(field string) string {
	var name strings.Builder
	lower := false // the letter before
	for _, r := range field {
		if unicode.IsUpper(r) && lower {
			name.WriteByte('_')
		}
		lower = !unicode.IsUpper(r)
		name.WriteRune(unicode.ToLower(r))
	}
	return name.String()
}

var (
	// theRows is the text's notation for the structs of a list as rows.
	theRows = regexp.MustCompile(`@(\w+) AS (\w+) \(([^)]*)\)`)
	// aWord matches names and numbers, and comments and quoted text, which contain
	// neither.
	aWord = regexp.MustCompile(`(?s)--[^\n]*|/\*.*?\*/|'[^']*'|"[^"]*"|\$\d+|@[\w.]+(?:` + asRegion + `)?`)
)

const asRegion = "::crdb_internal_region"

// asArrays replaces rows by the arrays of their columns.
//
// few is for PostgreSQL. It estimates ten rows for arrays of unknown length, prefers a
// plan for the single row of a lone caller over that, and so plans each time anew,
// which takes longer than the execution. A bound on their numbers, which all rows keep
// to, makes it estimate one.
func asArrays(sql string, few bool) string {
	return theRows.ReplaceAllStringFunc(sql, func(rows string) string {
		m := theRows.FindStringSubmatch(rows)
		var arrays, names []string
		for column := range strings.SplitSeq(m[3], ",") {
			name, typ, _ := strings.Cut(strings.TrimSpace(column), " ")
			arrays, names = append(arrays, "@"+m[1]+"."+name+"::"+typ+"[]"), append(names, name)
		}
		unnested, columns := "unnest("+strings.Join(arrays, ", ")+")", strings.Join(names, ", ")
		if few {
			unnested = fmt.Sprintf("(SELECT %[1]s FROM %[2]s WITH ORDINALITY AS few (%[1]s, nth) WHERE nth BETWEEN 1 AND 1000000)", columns, unnested)
		}
		return unnested + " AS " + m[2] + " (" + columns + ")"
	})
}

// number converts a text to a query: its names become numbers in the order in which
// they come. It marks those that it finds in used.
func number(name, sql string, args map[string]*argument, regionInText bool, used map[string]bool) (*query, error) {
	q := &query{name: name}
	sql = asArrays(sql, !regionInText)
	numbers := map[string]int{}
	var text strings.Builder
	end := 0
	for _, at := range aWord.FindAllStringIndex(sql, -1) {
		word, isRegion := strings.CutSuffix(sql[at[0]:at[1]], asRegion)
		if word[0] != '@' && word[0] != '$' {
			continue
		}
		text.WriteString(sql[end:at[0]])
		end = at[1]
		arg := args[word[1:]]
		switch {
		case word[0] == '$':
			return nil, fmt.Errorf("%s is not a name", word)
		case arg == nil:
			return nil, fmt.Errorf("%s is not a field", word)
		case arg.column != nil && arrays[arg.typ] == nil:
			return nil, fmt.Errorf("%s would be an array of %v, which is not made", word, arg.typ)
		}
		used[word[1:]] = true
		switch {
		case regionInText && isRegion && word == "@home":
			q.parts, q.home = append(q.parts, text.String()), arg
			text.Reset()
			continue
		case numbers[word] == 0:
			q.arguments = append(q.arguments, arg)
			numbers[word] = len(q.arguments)
		}
		text.WriteString("$" + strconv.Itoa(numbers[word]))
		if isRegion {
			text.WriteString(asRegion)
		}
	}
	text.WriteString(sql[end:])
	q.parts = append(q.parts, text.String())
	return q, nil
}

// in returns the text and the values of its arguments as they are sent. CockroachDB
// keeps a generic plan, for which a region among the arguments is any region: such a
// plan may visit all. If the text names the region the plan is made for that, and kept;
// a plan for each execution costs several times what begin itself does.
func (q *query) in(args any) (sql string, bound []any) {
	of := reflect.ValueOf(args)
	bound = make([]any, 0, len(q.arguments)+1)
	if q.fresh {
		bound = append(bound, pgx.QueryExecModeCacheDescribe)
	}
	for _, a := range q.arguments {
		bound = append(bound, a.of(of))
	}
	if q.home == nil {
		return q.parts[0], bound
	}
	return q.textIn(of.FieldByIndex(q.home.field).String()), bound
}

// textIn returns the text for rows of a region.
func (q *query) textIn(home string) string {
	if text, ok := q.texts.Load(home); ok {
		return text.(string)
	}
	text := strings.Join(q.parts, "'"+strings.ReplaceAll(home, "'", "''")+"'"+asRegion)
	q.texts.Store(home, text) // as many as the topology has regions: see [View.reach]
	return text
}
