package sqlstore

import (
	"context"
	"io/fs"
	"testing/fstest"
)

// Later adds migrations to the build's, by the names of their files.
func (m *Migrator) Later(files map[string]string) {
	all := fstest.MapFS{}
	for _, name := range fileNames(m.files) {
		text, err := fs.ReadFile(m.files, name)
		if err != nil {
			panic(err)
		}
		all[name] = &fstest.MapFile{Data: text}
	}
	for name, text := range files {
		all[name] = &fstest.MapFile{Data: []byte(text)}
	}
	m.files = all
}

// UpTo is Up as a build would do it whose newest migration is number to.
func (m *Migrator) UpTo(ctx context.Context, want Migration, to int) error {
	if err := m.place(ctx, want, func(Step) {}); err != nil {
		return err
	}
	return m.again(ctx, func(Step) {}, func() error { return m.tables(ctx, to, func(Step) {}) })
}

// CopiedTables are those that Copy copies.
func CopiedTables() []string { return append([]string(nil), copied...) }
