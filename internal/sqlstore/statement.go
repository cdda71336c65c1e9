package sqlstore

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

//go:embed query/*.sql
var queryFiles embed.FS

// statement is one that the store sends: the text in query/ of that name. The fields of A are
// its arguments, as [argumentsOf] names them.
type statement[A any] struct{ name string }

// declared maps the statements to the types of their arguments.
var declared = map[string]reflect.Type{}

func declare[A any](name string) statement[A] {
	declared[name] = reflect.TypeFor[A]()
	return statement[A]{name}
}

// in returns the text, and the arguments with which pgx sends it to a database.
func (s statement[A]) in(d dialect, args A) (sql string, bound []any) {
	sql, bound, _ = d.bind(s.name, args) // there is a text: TestEveryStatementIsUnderstood
	return sql, bound
}

// planned are the statements that PostgreSQL plans for each run. A kept plan was made for the
// table as it then was, usually empty, and stays until the table is analysed. A queue can grow
// by 100,000 rows before that.
var planned = append(ofQueues("take", "finish", "retry"), "calls_open", "look", "ledger_named", "notices_close")

// kept are the statements whose plans CockroachDB keeps: those of requests, and the frequent ones
// of workers and rounds. A plan for each execution costs several times what begin itself does. It
// plans all others for each run, with their arguments as constants. Takes need that: of an index on
// times the first rows of each shard are merged, up to a limit, only if the limit and the times are
// constants.
var kept = append(ofQueues("finish", "retry"), "begin", "begin_here", "find", "settle", "defer", "pin", "pin_read", "object", "replica",
	"tenant", "tenant_by_api_key", "renew", "notices_keep", "notices_close", "note", "look", "regions", "ping")

// fromReplica are the reads that the nearest replica may answer, a few seconds in the past.
var fromReplica = []string{"replica", "audit_page"}

// inRounds are the statements that a node sends by itself, again and again. They are reads.
// No caller waits for one, and the next round repeats it. A delivery that reads its endpoint by
// documents tries again at once.
var inRounds = append(ofQueues("depth"), "look", "regions", "documents", "claims_unknown")

const (
	aRegion = "@home::crdb_internal_region"
	// ofReplica ends a text whose last clause is FROM.
	ofReplica = "\nAS OF SYSTEM TIME follower_read_timestamp()"
)

// bind returns a statement's text, and its arguments, as pgx sends them.
//
// Both databases parse each text as it stands. For CockroachDB the region of the rows is
// written into it: it keeps a generic plan, and for a region among the arguments that is one
// of any region, which looks up where it could scan to a limit, and costs begin about a fifth
// more. A read of the nearest replica ends with a clause of CockroachDB.
func (d dialect) bind(name string, args any) (sql string, bound []any, err error) {
	of := reflect.ValueOf(args)
	key := formKey{d.cockroach, name, "", of.Type()}
	if d.cockroach && of.Kind() == reflect.Struct {
		if home := of.FieldByName("Home"); home.IsValid() {
			key.home = home.String()
		}
	}
	known, ok := forms.Load(key)
	if !ok {
		f, err := key.form()
		if err != nil {
			return "", nil, err
		}
		known, _ = forms.LoadOrStore(key, f)
	}
	f := known.(*form)
	bound = make([]any, 0, len(f.mode)+len(f.args))
	bound = append(bound, f.mode...)
	for i := range f.args {
		bound = append(bound, f.args[i].of(of))
	}
	return f.sql, bound, nil
}

// form is a text as a database gets it. $1 stands for the first of args.
type form struct {
	sql  string
	args []argument
	mode []any // in which pgx sends it, if not in its default one
}

// formKey names a form. home is "" where the region is an argument.
type formKey struct {
	cockroach  bool
	name, home string
	args       reflect.Type
}

// forms are those that were sent. To look for the names in a text again each time took a fifth of
// what a statement costs this process.
var forms sync.Map

func (k formKey) form() (*form, error) {
	sql, ok := texts()[k.name]
	if !ok {
		return nil, fmt.Errorf("sqlstore: there is no statement %q", k.name)
	}
	f := &form{}
	switch {
	case !k.cockroach && slices.Contains(planned, k.name):
		f.mode = []any{pgx.QueryExecModeCacheDescribe}
	case k.cockroach && !slices.Contains(kept, k.name):
		f.mode = []any{pgx.QueryExecModeSimpleProtocol}
	}
	named := pgx.StrictNamedArgs{}
	for _, a := range argumentsOf(k.args) {
		named[a.name] = a
	}
	if k.cockroach && strings.Contains(sql, aRegion) {
		delete(named, "home")
		sql = strings.ReplaceAll(sql, aRegion, literal(k.home)+"::crdb_internal_region")
	}
	if k.cockroach && slices.Contains(fromReplica, k.name) {
		sql += ofReplica
	}
	sql, args, err := named.RewriteQuery(context.Background(), nil, sql, nil)
	if err != nil {
		return nil, fmt.Errorf("query/%s.sql, arguments in %v: %w", k.name, k.args, err)
	}
	f.sql = sql
	for _, a := range args {
		f.args = append(f.args, a.(argument))
	}
	return f, nil
}

// texts are those of query/, by the names of their files. A queue has the texts of expiries
// with its own table's name in them, unless it has a file of its own.
var texts = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	files, err := fs.Glob(queryFiles, "query/*.sql")
	if err != nil {
		panic(err) // the pattern is well-formed
	}
	for _, f := range files {
		text, err := queryFiles.ReadFile(f)
		if err != nil {
			panic(err) // it is embedded
		}
		all[strings.TrimSuffix(path.Base(f), ".sql")] = strings.TrimSpace(string(text))
	}
	for name, text := range maps.Clone(all) {
		what, shared := strings.CutPrefix(name, expiriesTable)
		for _, table := range queueTables {
			if _, own := all[table+what]; shared && !own {
				all[table+what] = strings.ReplaceAll(text, expiriesTable, table)
			}
		}
	}
	return all
})

// argument is where the value of a name is: in a field, or in one field of each struct that
// a field lists.
type argument struct {
	name   string
	field  []int
	column []int        // nil unless the field is a list
	typ    reflect.Type // of the value, or of those in the list
}

func (a *argument) of(args reflect.Value) any {
	field := args.FieldByIndex(a.field)
	if a.column == nil {
		return plain(field).Interface()
	}
	all := reflect.MakeSlice(reflect.SliceOf(plainType(a.typ)), field.Len(), field.Len()) // never nil, which would be NULL
	for i := range field.Len() {
		all.Index(i).Set(plain(field.Index(i).FieldByIndex(a.column)))
	}
	return all.Interface()
}

var uuids = reflect.TypeFor[uuid.UUID]()

// plain returns a UUID in the type that pgx sends in binary.
func plain(v reflect.Value) reflect.Value {
	if v.Type() == uuids {
		return reflect.ValueOf(pgtype.UUID{Bytes: v.Interface().(uuid.UUID), Valid: true})
	}
	return v
}

func plainType(t reflect.Type) reflect.Type {
	if t == uuids {
		return reflect.TypeFor[pgtype.UUID]()
	}
	return t
}

var argumentsOfTypes sync.Map

// argumentsOf returns the fields of a struct as arguments:
//
//   - The field TenantID is @tenant_id. What a struct without a name has is a field like
//     others. A struct with a name has its name before those of its fields: @entry_id is ID of
//     Entry.
//   - A slice of structs is an array of each of their fields, for unnest: @claims_fence has
//     Fence of each of Claims.
func argumentsOf(t reflect.Type) (all []argument) {
	if known, ok := argumentsOfTypes.Load(t); ok {
		return known.([]argument)
	}
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous || !f.IsExported() {
			continue
		}
		name, within, many := snake(f.Name), f.Type, false
		if within.Kind() == reflect.Slice {
			within, many = within.Elem(), true
		}
		var fields []argument
		if within.Kind() == reflect.Struct {
			fields = argumentsOf(within) // none of what is a value, such as a time
		}
		for _, a := range fields {
			if many {
				all = append(all, argument{name + "_" + a.name, f.Index, a.field, a.typ})
			} else {
				all = append(all, argument{name + "_" + a.name, slices.Concat(f.Index, a.field), nil, a.typ})
			}
		}
		if len(fields) == 0 {
			all = append(all, argument{name, f.Index, nil, f.Type})
		}
	}
	argumentsOfTypes.Store(t, all)
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

// dialect holds the differences between the two databases.
type dialect struct {
	name      string
	cockroach bool
	// isolation is the level that statements need, session the settings of a session.
	isolation, session string
}

var (
	cockroachDB = dialect{name: "CockroachDB", cockroach: true, isolation: serializable, session: onCockroachDB}
	postgreSQL  = dialect{name: "PostgreSQL", isolation: readCommitted, session: onPostgreSQL}
)
