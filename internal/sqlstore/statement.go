package sqlstore

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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
//     Few rows are sent as values, without arrays: see [query.form].
//   - The lines from "-- if @rows" to "-- end" are left out where that list has no rows.
//   - @home::crdb_internal_region is the region of the rows, see [query.in].
//
// The text's names and A's fields are compared when a store is opened: see [load].
type statement[A any] struct{ name string }

// in is the statement's text and its arguments as a database is to get them.
func (s statement[A]) in(q queries, args A) (sql string, bound []any) {
	return q[s.name].in(args)
}

// queueStatement is one that every queue has.
type queueStatement[A any] struct{ what string }

// of returns the statement of one queue.
func (s queueStatement[A]) of(q queue) statement[A] { return statement[A]{q.statement(s.what)} }

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

func declareOfQueues[A any](what string) queueStatement[A] {
	declare[A](queueFiles + what)
	declare[A](callFiles + what)
	return queueStatement[A]{what}
}

// argument is where the value of a name is: in a field, in one field of each struct that
// a field lists, or in one field of one of those structs.
type argument struct {
	field  []int
	column []int        // nil unless the field is a list
	row    int          // of the list; arrayed: all of them, as an array
	typ    reflect.Type // of the value, or of those in the list
}

const arrayed = -1

func (a *argument) of(args reflect.Value) any {
	field := args.FieldByIndex(a.field)
	switch {
	case a.column == nil:
	case a.row == arrayed:
		return arrays[a.typ](field, a.column)
	default:
		field = field.Index(a.row).FieldByIndex(a.column)
	}
	value := field.Interface()
	if id, ok := value.(uuid.UUID); ok {
		return pgtype.UUID{Bytes: id, Valid: true} // pgx would write the other as text, and read that
	}
	return value
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
				all[name+"."+of] = &argument{f.Index, a.field, arrayed, a.typ}
			} else {
				all[name+"_"+of] = &argument{slices.Concat(f.Index, a.field), nil, arrayed, a.typ}
			}
		}
		if len(fields) == 0 {
			all[name] = &argument{f.Index, nil, arrayed, f.Type}
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

// aPart matches the lines that are left out where a list has no rows.
var aPart = regexp.MustCompile(`(?ms)^-- if @(\w+)\n.*?^-- end\n`)

// rows is the notation for the structs of a list, taken apart.
type rows struct {
	list, as     string
	names, types []string // of the columns
}

// asRows replaces each notation for rows by what as returns for it.
func asRows(sql string, as func(rows) string) string {
	return theRows.ReplaceAllStringFunc(sql, func(text string) string {
		m := theRows.FindStringSubmatch(text)
		r := rows{list: m[1], as: m[2]}
		for column := range strings.SplitSeq(m[3], ",") {
			name, typ, _ := strings.Cut(strings.TrimSpace(column), " ")
			r.names, r.types = append(r.names, name), append(r.types, typ)
		}
		return as(r)
	})
}

// each writes the columns by format, whose arguments are the column's name, its type and
// the list's name.
func (r rows) each(format string) string {
	all := make([]string, len(r.names))
	for i, name := range r.names {
		all[i] = fmt.Sprintf(format, name, r.types[i], r.list)
	}
	return strings.Join(all, ", ")
}

// asArrays is rows of any number: the arrays of their columns.
//
// few is for PostgreSQL. It estimates ten rows for arrays of unknown length, prefers a
// plan for the single row of a lone caller over that, and so plans each time anew,
// which takes longer than the execution. A bound on their numbers, which all rows keep
// to, makes it estimate one.
func (r rows) asArrays(few bool) string {
	columns := r.each("%[1]s")
	unnested := "unnest(" + r.each("@%[3]s.%[1]s::%[2]s[]") + ")"
	if few {
		unnested = fmt.Sprintf("(SELECT %[1]s FROM %[2]s WITH ORDINALITY AS few (%[1]s, nth) WHERE nth BETWEEN 1 AND 1000000)", columns, unnested)
	}
	return unnested + " AS " + r.as + " (" + columns + ")"
}

// asValues is n rows, each of its values an argument of its own.
func (r rows) asValues(n int) string {
	values := "(SELECT " + r.each("NULL::%[2]s") + " WHERE false)"
	if n > 0 {
		all := make([]string, n)
		for i := range all {
			all[i] = "(" + r.each("@%[3]s."+strconv.Itoa(i)+".%[1]s::%[2]s") + ")"
		}
		values = "(VALUES " + strings.Join(all, ", ") + ")"
	}
	return values + " AS " + r.as + " (" + r.each("%[1]s") + ")"
}

// number converts a text without rows to a form: its names become numbers in the order
// in which they come. It marks those that it finds in used.
func number(sql string, args map[string]*argument, regionInText bool, used map[string]bool) (*form, error) {
	f := &form{}
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
		name, row := inRow(word[1:])
		arg := args[name]
		switch {
		case word[0] == '$':
			return nil, fmt.Errorf("%s is not a name", word)
		case arg == nil:
			return nil, fmt.Errorf("%s is not a field", word)
		case arg.column != nil && arrays[arg.typ] == nil:
			return nil, fmt.Errorf("%s would be an array of %v, which is not made", word, arg.typ)
		}
		used[name] = true
		switch {
		case regionInText && isRegion && word == "@home":
			f.parts, f.home = append(f.parts, text.String()), arg
			text.Reset()
			continue
		case numbers[word] == 0:
			if row != arrayed {
				arg = &argument{arg.field, arg.column, row, arg.typ}
			}
			f.arguments = append(f.arguments, arg)
			numbers[word] = len(f.arguments)
		}
		text.WriteString("$" + strconv.Itoa(numbers[word]))
		if isRegion {
			text.WriteString(asRegion)
		}
	}
	text.WriteString(sql[end:])
	f.parts = append(f.parts, text.String())
	return f, nil
}

// inRow splits the name of one row's value, as in claims.0.step.
func inRow(word string) (name string, row int) {
	list, rest, _ := strings.Cut(word, ".")
	number, column, ok := strings.Cut(rest, ".")
	if !ok {
		return word, arrayed
	}
	row, _ = strconv.Atoi(number) // as asValues wrote it
	return list + "." + column, row
}

// fewRows is how many rows of a list may be values in the text. A settled charge has two
// entries of audit.
const fewRows = 2

// manyRows stands for any number of rows.
const manyRows = fewRows + 1

// form is a query's text and arguments, for given numbers of rows or for any.
type form struct {
	arguments []*argument // by their numbers
	// parts are the text. The region of the rows goes between them, if the text has a
	// place for it.
	parts []string
	home  *argument // nil where it has none
	texts sync.Map  // by region
}

// in returns the text and the values of its arguments as they are sent. CockroachDB
// keeps a generic plan, for which a region among the arguments is any region: such a
// plan may visit all. If the text names the region the plan is made for that, and kept;
// a plan for each execution costs several times what begin itself does.
func (q *query) in(args any) (sql string, bound []any) {
	of := reflect.ValueOf(args)
	f := q.form(of)
	bound = make([]any, 0, len(f.arguments)+1)
	if q.fresh {
		bound = append(bound, pgx.QueryExecModeCacheDescribe)
	}
	for _, a := range f.arguments {
		bound = append(bound, a.of(of))
	}
	if f.home == nil {
		return f.parts[0], bound
	}
	return f.textIn(of.FieldByIndex(f.home.field).String()), bound
}

// form returns the one for args. One caller's step has a row or two in each list, or
// none: the database does less for values than for arrays, which it takes apart. In any
// case it need not do what would be done with no rows.
func (q *query) form(args reflect.Value) *form {
	if q.others == nil {
		return q.any
	}
	numbers := q.numbers(args)
	i := formOf(numbers)
	if f := q.others[i].Load(); f != nil {
		return f
	}
	f, err := q.withRows(numbers)
	if err != nil {
		return q.any // make has made one like it
	}
	q.others[i].Store(f)
	return f
}

// numbers returns how many rows of each list the form for args has as values; manyRows: any
// number, as arrays.
func (q *query) numbers(args reflect.Value) []int {
	numbers := make([]int, len(q.lists))
	alone := true
	for n, l := range q.lists {
		numbers[n] = args.FieldByIndex(l.field).Len()
		alone = alone && numbers[n] <= fewRows && (n > 0 || numbers[n] == 1)
	}
	for n, l := range q.lists {
		if !alone && (numbers[n] > 0 || !l.optional) {
			numbers[n] = manyRows
		}
	}
	return numbers
}

// formOf is where the form with so many rows in its lists is among a query's others.
func formOf(numbers []int) (i int) {
	for _, rows := range numbers {
		i = i*(manyRows+1) + rows
	}
	return i
}

// make makes the form for any number of rows, and marks the names that it finds in used.
func (q *query) make(used map[string]bool) (err error) {
	var lists []rows
	asked := asRows(q.sql, func(r rows) string {
		lists = append(lists, r)
		return r.asArrays(!q.cockroach)
	})
	if q.any, err = number(asked, q.args, q.cockroach, used); err != nil || q.fresh || len(lists) == 0 {
		return err
	}
	forms := 1
	for _, r := range lists {
		q.lists = append(q.lists, list{name: r.list, field: q.args[r.list+"."+r.names[0]].field})
		forms *= manyRows + 1
	}
	for _, part := range aPart.FindAllStringSubmatch(q.sql, -1) {
		i := slices.IndexFunc(q.lists, func(l list) bool { return l.name == part[1] })
		if i < 0 {
			return fmt.Errorf("a part is left out without rows of @%s, which is no list of the text", part[1])
		}
		q.lists[i].optional = true
	}
	q.others = make([]atomic.Pointer[form], forms)
	return nil
}

// withRows makes the form for so many rows in its lists.
func (q *query) withRows(numbers []int) (*form, error) {
	of := make(map[string]int, len(q.lists))
	for n, l := range q.lists {
		of[l.name] = numbers[n]
	}
	sql := aPart.ReplaceAllStringFunc(q.sql, func(part string) string {
		if of[aPart.FindStringSubmatch(part)[1]] == 0 {
			return ""
		}
		return part
	})
	return number(asRows(sql, func(r rows) string {
		if of[r.list] == manyRows {
			return r.asArrays(!q.cockroach)
		}
		return r.asValues(of[r.list])
	}), q.args, q.cockroach, map[string]bool{})
}

// textIn returns the text for rows of a region.
func (f *form) textIn(home string) string {
	if text, ok := f.texts.Load(home); ok {
		return text.(string)
	}
	text := strings.Join(f.parts, "'"+strings.ReplaceAll(home, "'", "''")+"'"+asRegion)
	f.texts.Store(home, text) // as many as the topology has regions: see [View.reach]
	return text
}
