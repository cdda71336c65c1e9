package account

import (
	"context"
	"slices"
)

// Nameless returns the provider of claims whose provider key names none: the one that
// existed when names were introduced. It returns "" if the rows do not say; then no
// such claim is acted on until an operator names the provider, as another one would
// find nothing, and charge again.
func Nameless(rows []Row) (provider string) {
	for _, r := range rows {
		switch {
		case r.Unnamed && provider != "":
			return "" // two concurrent first starts, each with a provider of its own
		case r.Unnamed:
			provider = r.Provider
		}
	}
	return provider
}

// inherit records the provider of nameless claims if no other provider has been in use.
func inherit(ctx context.Context, store Store, rows []Row) error {
	if len(rows) != 1 || rows[0].Unnamed {
		return nil
	}
	row := rows[0]
	row.Unnamed = true
	_, err := store.PutAccount(ctx, row) // or another process did
	return err
}

// Inherit makes provider the one of nameless claims, as an operator found out. changed
// is false if it is already.
func Inherit(ctx context.Context, store Store, provider string) (changed bool, err error) {
	for range maxTries {
		rows, err := store.Accounts(ctx)
		if err != nil {
			return false, err
		}
		if !slices.ContainsFunc(rows, func(r Row) bool { return r.Provider == provider }) {
			return false, ErrUnknown
		}
		// First remove the mark from others: in between, no provider has it.
		slices.SortStableFunc(rows, func(a, b Row) int { return rank(a.Provider == provider) - rank(b.Provider == provider) })
		for i := 0; i < len(rows) && err == nil; i++ {
			r := rows[i]
			if is := r.Provider == provider; r.Unnamed != is {
				r.Unnamed = is
				changed = true
				var put bool
				if put, err = store.PutAccount(ctx, r); err == nil && !put {
					break // read again
				}
			}
		}
		if err != nil {
			return false, err
		}
		if rows, err = store.Accounts(ctx); err != nil {
			return false, err
		}
		if Nameless(rows) == provider {
			return changed, nil
		}
	}
	return false, errRestless
}

func rank(last bool) int {
	if last {
		return 1
	}
	return 0
}
