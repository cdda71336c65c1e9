package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"
)

// The kinds of documents.
const (
	accountDocument = "account" // [account.Row], by the provider's name
	brakeDocument   = "brake"   // [notice.Brake], by the provider's name, "" for all
	restoreDocument = "restore" // [claim.Restore], one without a name
)

var (
	documentsOf = declare[documentsArgs]("documents")
	documentPut = declare[documentArgs]("document_put")
)

type (
	documentsArgs struct{ Kind string }
	documentArgs  struct {
		Kind, Name string
		Version    int64 // that was read, 0 for none
		State      []byte
	}
)

// document is a row of JSON with its version.
type document struct {
	name    string
	version uint64
	state   []byte
}

// documents reads those of a kind, by name, and the clock.
func (db *DB) documents(ctx context.Context, kind string) (all []document, now time.Time, err error) {
	_, err = db.do(ctx, documentsOf.name, repeatable, documentsArgs{kind}, func(rows pgx.Rows) error {
		all = nil
		var name zeronull.Text
		var version zeronull.Int8
		var state []byte
		_, err := pgx.ForEachRow(rows, []any{&now, &name, &version, &state}, func() error {
			if version > 0 {
				all = append(all, document{string(name), uint64(version), state})
			}
			return nil
		})
		return err
	})
	return all, now.UTC(), claimError(documentsOf.name, err)
}

// putDocument writes one of which version was read. A second run of a statement whose reply
// was lost finds its own version and changes nothing, which would look as if another had been
// faster: so it is sent once.
func (db *DB) putDocument(ctx context.Context, kind, name string, version uint64, value any) (changed bool, err error) {
	state, err := json.Marshal(value)
	if err != nil {
		return false, err
	}
	_, changed, _, err = one(ctx, db, documentPut, once, documentArgs{kind, name, int64(version), state}, pgx.RowTo[int64])
	return changed, claimError(documentPut.name, err)
}

// readDocument decodes d into what it says.
func readDocument(kind string, d *document, into any) error {
	if err := json.Unmarshal(d.state, into); err != nil {
		return fmt.Errorf("the document %s %q cannot be decoded: %w", kind, d.name, err)
	}
	return nil
}
