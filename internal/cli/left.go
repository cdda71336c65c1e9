package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/payment/verify"
)

// leftBefore returns up to which time books of any of regions have left for segments; zero: none
// have. Some of that time stay.
func (s *store) leftBefore(ctx context.Context, regions ...string) (latest time.Time, err error) {
	for _, region := range regions {
		c, _, _, err := s.rows.AuditChain(ctx, region)
		if err != nil {
			return latest, fmt.Errorf("region %s: %w", region, err)
		}
		if c.Books.At.After(latest) {
			latest = c.Books.At
		}
	}
	return latest, nil
}

// whereLeft is one line on where the old books of regions are, "" if none have left.
func (s *store) whereLeft(ctx context.Context, regions []string) (string, error) {
	latest, err := s.leftBefore(ctx, regions...)
	if err != nil || latest.IsZero() {
		return "", err
	}
	return fmt.Sprintf("old bookings from before %s have left for the audit's segments; homeward audit show finds those of a key or an object there", moment(latest)), nil
}

// leftBooks are the transactions in segments.
type leftBooks struct {
	archive audit.Archive
	regions []string
}

var _ verify.Left = (*leftBooks)(nil)

// withLeft passes the books in the bucket that f names to do; nil if nothing has left, or f names
// none.
func (s *store) withLeft(ctx context.Context, f *bucketFlags, data string, do func(verify.Left) error) error {
	where, err := s.whereLeft(ctx, s.regions)
	if err != nil {
		return err
	}
	if where == "" || f.Bucket == "" && data == "" {
		return do(nil)
	}
	id, err := s.DeploymentID(ctx)
	if err != nil {
		return err
	}
	bucket, trust, err := f.open(ctx, data)
	if err != nil {
		return err
	}
	return errors.Join(do(&leftBooks{audit.Archive{Objects: bucket, Trust: trust, Deployment: id}, s.regions}), bucket.Close())
}

// Carried implements [verify.Left].
func (l *leftBooks) Carried(ctx context.Context, region string) (ledger.Sums, []string, error) {
	r, err := audit.Verify(ctx, audit.VerifyConfig{Objects: l.archive.Objects, Trust: l.archive.Trust, Deployment: l.archive.Deployment, Regions: []string{region}})
	if err != nil {
		return nil, nil, err
	}
	if r.OnlyUnread() {
		return nil, nil, errors.New(r.Failures[0].String())
	}
	var faults []string
	for _, f := range r.Failures {
		if r.Regions[0].Segments == 0 && f.Class == audit.Removed && f.Object == "" { // it has none, and perhaps needs none
			continue
		}
		faults = append(faults, f.String())
	}
	return r.Regions[0].Carried, faults, nil
}

// Transaction implements [verify.Left].
func (l *leftBooks) Transaction(ctx context.Context, _, id string) (ledger.Transaction, bool, error) {
	all, doubts, err := l.archive.Books(ctx, id, l.regions)
	for i := range all {
		if all[i].ID == id {
			return all[i], true, nil
		}
	}
	if err == nil && len(doubts) > 0 {
		err = errors.New(doubts[0])
	}
	return ledger.Transaction{}, false, err
}
