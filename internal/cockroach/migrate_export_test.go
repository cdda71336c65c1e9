package cockroach

import "context"

// UpTo is Up as a build would do it whose newest migration is number to.
func (m *Migrator) UpTo(ctx context.Context, want Migration, to int) error {
	if err := m.place(ctx, want, func(Step) {}); err != nil {
		return err
	}
	return m.again(ctx, func(Step) {}, func() error { return m.tables(ctx, int64(to), func(Step) {}) })
}

// CopiedTables are those that Copy copies.
func CopiedTables() []string { return append([]string(nil), copied...) }
