package sqlstore

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/homeward-io/homeward/internal/documents"
)

var (
	documentsOf = declare[documentsArgs]("documents")
	documentPut = declare[documentArgs]("document_put")
)

type (
	documentsArgs struct {
		Kind, From string
		Limit      int64
	}
	documentArgs struct {
		Kind, Name string
		Version    int64 // that was read, 0 for none
		Step       uuid.UUID
		State      []byte
	}
)

// Documents implements [documents.Store].
func (db *DB) Documents(ctx context.Context, kind, from string, limit int) (all []documents.Document, now time.Time, err error) {
	_, err = db.do(ctx, documentsOf.name, repeatable, documentsArgs{kind, from, int64(limit)}, func(rows pgx.Rows) error {
		all = nil
		var name zeronull.Text
		var version zeronull.Int8
		var state []byte
		_, err := pgx.ForEachRow(rows, []any{&now, &name, &version, &state}, func() error {
			if version > 0 {
				all = append(all, documents.Document{Name: string(name), Version: uint64(version), State: state})
			}
			return nil
		})
		return err
	})
	return all, now.UTC(), claimError(documentsOf.name, err)
}

// PutDocument implements [documents.Store].
func (db *DB) PutDocument(ctx context.Context, kind string, d documents.Document) (changed bool, err error) {
	_, changed, _, err = one(ctx, db, documentPut, repeatable, documentArgs{kind, d.Name, int64(d.Version), newStep(), d.State}, pgx.RowTo[int64])
	return changed, claimError(documentPut.name, err)
}
