package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/internal/meter"
	"github.com/homeward-io/homeward/internal/parts"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment"
)

// AuditSettings configure the export of the audit, which is kept for years.
type AuditSettings struct {
	// Bucket is the gocloud.dev URL of the bucket for segments, the same one for all
	// regions; "": audit stays in its rows, for 400 days.
	Bucket string `koanf:"bucket"`
	// Every is how often the node checks whether a window is due; 0 means 10 min.
	Every        time.Duration `koanf:"every"`
	audit.Policy `koanf:",flatten,squash"`
}

const defaultAuditEvery = 10 * time.Minute

// DefaultAudit keeps audit in rows: export needs a bucket.
func DefaultAudit() AuditSettings {
	return AuditSettings{Every: defaultAuditEvery, Policy: audit.DefaultPolicy()}
}

func (a AuditSettings) validate() error {
	return errors.Join(bucketMistake("audit.bucket", a.Bucket, `"" to keep audit in its rows`), mustPass("audit.every", a.Every), a.Policy.Validate())
}

// AuditKeys is the variable of the keys that sign segments, in PEM, one after the
// other; see [Secret]. The first signs, and segments signed by the others are accepted,
// so that a deployment can rotate keys; the others may be public keys alone.
const AuditKeys = "HOMEWARD_AUDIT_KEYS"

// ParseAuditKeys reads the text of [AuditKeys].
func ParseAuditKeys(text string) (*audit.Keys, error) {
	keys, err := audit.ParseKeys(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", AuditKeys, err)
	}
	return keys, nil
}

// AuditBucket implements [audit.Objects] over any bucket that gocloud.dev can open.
type AuditBucket struct{ *Blobs }

// answersWithin is for how long a bucket may take for an object, some 24 MiB at most, or for a page of
// names. One that accepts a request and never answers would hold an export for ever, and no alert would fire.
const answersWithin = 5 * time.Minute

// OpenAudit opens the bucket named by a gocloud.dev URL. "file://DIR" is created if it
// does not exist.
func OpenAudit(ctx context.Context, url string) (AuditBucket, error) {
	b, err := OpenBlobs(ctx, url)
	if err != nil {
		return AuditBucket{}, fmt.Errorf("audit.bucket: %w", err)
	}
	return AuditBucket{b}, nil
}

// Put implements [audit.Objects].
func (b AuditBucket) Put(ctx context.Context, name string, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	if err := b.bucket.WriteAll(ctx, name, data, nil); err != nil || b.dir == "" {
		return err
	}
	errs := []error{syncPath(filepath.Join(b.dir, filepath.FromSlash(name)))}
	for at := name; at != ""; { // the directories may be new
		at = strings.TrimSuffix(at[:strings.LastIndexByte(at, '/')+1], "/")
		errs = append(errs, syncPath(filepath.Join(b.dir, filepath.FromSlash(at))))
	}
	return errors.Join(errs...)
}

// Get implements [audit.Objects].
func (b AuditBucket) Get(ctx context.Context, name string, limit int64) (data []byte, err error) {
	if limit <= 0 {
		limit = -1 // to the end
	}
	ctx, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	r, err := b.bucket.NewRangeReader(ctx, name, 0, limit, nil)
	if err != nil {
		if gcerrors.Code(err) == gcerrors.NotFound {
			return nil, fmt.Errorf("%w: %s", audit.ErrNoObject, name)
		}
		return nil, err
	}
	data, err = io.ReadAll(r)
	return data, errors.Join(err, r.Close())
}

// listTries bounds how often List lists once more. Each time another writer must have been in
// the midst of an object of the folder that is listed.
const listTries = 100

// List implements [audit.Objects]. A bucket of files has temporary files while another process
// writes an object. One that goes while it is listed ends the listing with NotFound. List then
// lists once more, and skips the names that it has returned, as listings are in order of names.
func (b AuditBucket) List(ctx context.Context, prefix string, each func(name string) error) error {
	last := ""
	for try := 1; ; try++ {
		it := b.bucket.List(&blob.ListOptions{Prefix: prefix})
		next := func() (*blob.ListObject, error) {
			ctx, cancel := context.WithTimeout(ctx, answersWithin)
			defer cancel()
			return it.Next(ctx)
		}
		for {
			o, err := next()
			if gcerrors.Code(err) == gcerrors.NotFound && try < listTries {
				break
			}
			switch {
			case errors.Is(err, io.EOF):
				return nil
			case err != nil:
				return err
			case o.Key <= last:
				continue
			}
			if err := each(o.Key); err != nil {
				return err
			}
			last = o.Key
		}
	}
}

// The file of the demo's key that signs audit, and the directory of its bucket, within
// its --data directory.
const (
	auditFile = "audit.key"
	auditDir  = "audit"
)

// DemoAuditDir is the default bucket of a demo.
func DemoAuditDir(data string) string { return filepath.Join(data, auditDir) }

// DemoAudit is the default export of a demo: a bucket beside its store, a window every
// few minutes so that people can watch it, signed by a key of its own, which it creates
// if there is none.
func DemoAudit(data string, s AuditSettings) (AuditSettings, *audit.Keys, error) {
	if s.Bucket == "" {
		dir, err := filepath.Abs(DemoAuditDir(data))
		if err != nil {
			return s, nil, err
		}
		s.Bucket, s.Every, s.Window, s.Settle = "file://"+dir, 10*time.Second, 5*time.Minute, 5*time.Second
	}
	keys, err := DemoAuditKeys(data)
	if errors.Is(err, fs.ErrNotExist) {
		var key string
		if key, err = audit.NewKey(); err == nil {
			_, err = writeSecret(data, filepath.Join(data, auditFile), key)
		}
		if err == nil {
			keys, err = DemoAuditKeys(data)
		}
	}
	return s, keys, err
}

// DemoAuditKeys reads a demo's key that signs audit. It creates none: nothing is signed by it.
func DemoAuditKeys(data string) (*audit.Keys, error) {
	path := filepath.Join(data, auditFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the demo's audit key: %w", err)
	}
	keys, err := audit.ParseKeys(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return keys, nil
}

// export has the state of this node's exports, by home.
type export struct {
	last atomic.Pointer[map[string]exported]
}

// exported is the result of a round.
type exported struct {
	at     time.Time
	status audit.Status
	failed bool
}

// lag returns the age of the oldest window that is due and not exported, some time
// after the last round.
func (e *exported) lag() (lag time.Duration, ok bool) {
	if e.status.Exported.IsZero() {
		return 0, false
	}
	if lag = e.status.Lag; e.failed || lag > 0 {
		lag += time.Since(e.at)
	}
	return lag, true
}

// report records the lag of each home.
func (e *export) report(o *meter.Observer) {
	if last := e.last.Load(); last != nil {
		for home, l := range *last {
			if lag, ok := l.lag(); ok {
				o.Is(meter.AuditLag, lag.Seconds(), home)
			}
		}
	}
}

// NewExporter returns an exporter that masks card numbers in providers' texts.
func NewExporter(c audit.Config) (*audit.Exporter, error) {
	c.Mask = maskCards
	return audit.NewExporter(c)
}

// exportRounds is in how many rounds a node exports once, by its place in line. Rounds are
// long and cost one read, so the others do not wait for as many of them as
// [outbox.Rounds] says.
func exportRounds(place int) int { return min(1+place, outbox.Rounds(1)) }

// exportAudit exports the audit of the region, and that of lost regions, usually at one
// node: without an export a lost home's rows would be dropped after 400 days.
func (n *Node) exportAudit(context.Context) (parts.Stop, error) {
	c := &n.c
	if c.AuditObjects == nil {
		return nil, nil
	}
	x := &exports{n: n, segments: c.Meters.Counter(meter.AuditSegments), lost: c.Meters.Counter(meter.AuditLost), of: map[string]*homeExport{}}
	if _, err := x.home(c.Region); err != nil {
		return nil, err
	}
	if err := c.Meters.Observe(n.export.report); err != nil {
		return nil, err
	}
	inTurn := roundsOf(n.place, exportRounds)
	n.background.every(n.log, cmp.Or(c.Audit.Every, defaultAuditEvery), func(ctx context.Context) {
		last := map[string]exported{} // without those that another node reports
		for _, home := range n.keptHomes() {
			if !inTurn(home) || n.guard.Standing().Unread(home) { // unread: an operator must look first
				continue
			}
			if done, err := x.round(ctx, home); err == nil {
				last[home] = done
			}
			if ctx.Err() != nil {
				return
			}
		}
		n.export.last.Store(&last)
	})
	return nil, nil
}

// exports are the exports of a node. They are for one goroutine.
type exports struct {
	n              *Node
	segments, lost *meter.Counter
	of             map[string]*homeExport
}

// homeExport is the export of one home.
type homeExport struct {
	*audit.Exporter
	trouble trouble
}

// exporter returns one of a home.
func (n *Node) exporter(home string) (*audit.Exporter, error) {
	c := &n.c
	return NewExporter(audit.Config{
		Store: c.Store, Objects: c.AuditObjects, Keys: c.AuditKeys, Deployment: n.deployment, Policy: c.Audit.Policy, Home: home, Node: c.Name, Providers: c.Providers.Names(), Logger: n.log,
	})
}

// home returns the export of a home.
func (x *exports) home(home string) (*homeExport, error) {
	if x.of[home] == nil {
		e, err := x.n.exporter(home)
		if err != nil {
			return nil, err
		}
		x.of[home] = &homeExport{e, trouble{log: x.n.log.With("home", home), began: "the audit cannot be exported; its rows wait for it", over: "the audit is exported again"}}
	}
	return x.of[home], nil
}

// round exports the due windows of a home. The error is about an export that cannot be
// made.
func (x *exports) round(ctx context.Context, home string) (done exported, err error) {
	e, err := x.home(home)
	if err != nil {
		return done, err
	}
	status, err := x.export(ctx, home, e)
	if ctx.Err() != nil {
		return done, ctx.Err()
	}
	if err != nil && status.Exported.IsZero() { // the round has not begun: it waits for the bucket or for a person
		behind, berr := e.Behind(ctx)
		status, err = behind, errors.Join(err, berr)
	}
	e.trouble.note(err)
	x.segments.Add(int64(status.Segments))
	x.lost.Add(int64(status.RepliesLost))
	if status.Segments > 0 {
		x.n.log.Info("audit was exported", "home", home, "until", status.Exported, "segments", status.Segments, "entries", status.Entries, "late", status.Late, "swept", status.Swept, "left", status.Left)
	}
	return exported{time.Now(), status, err != nil}, nil
}

// export compares before it exports: the database may have been put back while this node runs,
// as a standby is that had fallen behind, or when the bucket was out of reach at the start.
func (x *exports) export(ctx context.Context, home string, e *homeExport) (audit.Status, error) {
	was, _, err := x.n.c.Store.Restore(ctx)
	if err != nil {
		return audit.Status{}, err
	}
	if was.Unread(home) { // by another node, or by a person: this node reads it
		return audit.Status{}, errUnread
	}
	err = e.Compare(ctx, was.OpenedAt)
	if ahead, ok := errors.AsType[*audit.AheadError](err); ok {
		return audit.Status{}, errors.Join(err, x.n.putBack(ctx, ahead))
	}
	if err != nil {
		return audit.Status{}, err
	}
	return e.Round(ctx)
}

var errUnread = errors.New("a restore is in effect, and what is lost was not read from the bucket; run homeward restore audit")

// maskCards replaces a provider's text that contains a card number.
func maskCards(text string) string {
	if payment.HasCardNumber(text) {
		return "(masked: it held a card number)"
	}
	return text
}
