package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/internal/node"
)

type auditCommand struct {
	Verify auditVerifyCommand `cmd:"" help:"Verify the segment chains from the bucket alone. Exit code 1: a fault was found, 2: not everything could be read."`
	Show   auditShowCommand   `cmd:"" help:"Show a key's or object's whole history, from rows and segments."`
	Status auditStatusCommand `cmd:"" help:"Show how far each region's audit is exported."`
	Export auditExportCommand `cmd:"" help:"Export all that there is, while no node runs: the last thing before a database is left behind."`
	Key    auditKeyCommand    `cmd:"" help:"Print a new key that signs segments, or the public half of those that there are."`
}

// bucketFlags select a bucket of segments and the trusted keys.
type bucketFlags struct {
	Bucket    string   `env:"HOMEWARD_AUDIT__BUCKET" placeholder:"URL" help:"Bucket of the segments, as in the setting audit.bucket."`
	PublicKey []string `name:"public-key" type:"path" placeholder:"FILE" help:"Trust these public keys, in PEM; default: those of HOMEWARD_AUDIT_KEYS."`
}

// bucketHelp is for the commands that read segments.
const bucketHelp = `The segments are in --bucket, or in the variable HOMEWARD_AUDIT__BUCKET; those of a demo in the directory audit of its --data. `

// open opens the bucket; data is a demo's directory, or "". The caller closes it.
func (f *bucketFlags) open(ctx context.Context, data string) (b node.AuditBucket, trust audit.Trust, err error) {
	url := f.Bucket
	if url == "" && data != "" {
		dir, err := filepath.Abs(node.DemoAuditDir(data))
		if err != nil {
			return b, nil, err
		}
		if _, err := os.Stat(dir); err != nil {
			return b, nil, fmt.Errorf("%s holds no audit of a demo: %w", data, err)
		}
		url = "file://" + dir
	}
	if url == "" {
		return b, nil, errors.New("no bucket is set: name one with --bucket, as in --bucket s3://audit?region=eu-west-1, or file:///directory")
	}
	if trust, err = f.trust(data); err != nil {
		return b, nil, err
	}
	b, err = node.OpenAudit(ctx, url)
	return b, trust, err
}

// trust returns the trusted public keys.
func (f *bucketFlags) trust(data string) (audit.Trust, error) {
	all := audit.Trust{}
	for _, path := range f.PublicKey {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("--public-key: %w", err)
		}
		trust, err := audit.ParseTrust(string(text))
		if err != nil {
			return nil, fmt.Errorf("--public-key %s: %w", path, err)
		}
		maps.Copy(all, trust)
	}
	if len(all) > 0 {
		return all, nil
	}
	keys, err := auditKeys(data)
	if err != nil {
		return nil, fmt.Errorf("%w; or name the public keys that signed with --public-key", err)
	}
	return keys.Trust(), nil
}

// auditKeys returns the keys of the environment, or of a demo.
func auditKeys(data string) (*audit.Keys, error) {
	if data != "" {
		return node.DemoAuditKeys(data)
	}
	text, err := node.Secret(os.Environ(), node.AuditKeys)
	if err != nil {
		return nil, err
	}
	if text == "" {
		return nil, fmt.Errorf("%s is not set", node.AuditKeys)
	}
	return node.ParseAuditKeys(text)
}

type auditVerifyCommand struct {
	bucketFlags
	Data   string        `type:"path" placeholder:"DIR" help:"Verify the audit of a demo in this --data directory."`
	Region []string      `placeholder:"REGION" help:"Regions to verify; one without segments is a fault. Default: all in the bucket."`
	Stale  time.Duration `default:"48h" help:"Maximum age of a chain's last segment: later ones may have been removed. 0: any age."`
	JSON   bool          `name:"json" help:"Print JSON."`
}

// Help returns the text that homeward audit verify --help adds.
func (auditVerifyCommand) Help() string {
	return bucketHelp + "Nothing but objects and public keys is read. Keep the digest that it prints of each region's last segment somewhere else: whoever has the signing key could write another chain."
}

func (c *auditVerifyCommand) Run(ctx context.Context, io streams) error {
	bucket, trust, err := c.open(ctx, c.Data)
	if err != nil {
		return &exitError{exitUnread, err}
	}
	proved := &countedParts{what: "segments proved"}
	stop := io.progress(proved.String)
	r, err := audit.Verify(ctx, audit.VerifyConfig{
		Objects: bucket, Trust: trust, Regions: c.Region, Now: time.Now(), Stale: c.Stale, Progress: proved.set,
	})
	stop()
	if err := errors.Join(err, bucket.Close()); err != nil {
		return &exitError{exitUnread, err}
	}
	if c.JSON {
		err = indented(io, r)
	} else {
		err = printAuditReport(io, &r)
	}
	switch {
	case err != nil:
		return err
	case len(r.Regions) == 0:
		return &exitError{exitUnread, errors.New("the bucket has no segments")}
	case r.OnlyUnread():
		return &exitError{exitUnread, errors.New("not every segment could be read; what was read is whole")}
	case !r.OK():
		return &exitError{exitDiffers, errors.New("the audit differs from what was signed: keep the bucket and its versions unchanged, and find out who could write to it")}
	}
	return nil
}

func printAuditReport(io streams, r *audit.Report) error {
	for _, f := range r.Failures {
		fmt.Fprintln(io.out, visible(f.String()))
	}
	t := segmentColumns.list(io)
	for _, g := range r.Regions {
		t.row(g.Region, g.Segments, g.Entries, g.RepliesLost, g.Spare, g.From, g.To, g.Digest)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(r.Keys)) {
		fmt.Fprintf(io.out, "key %s signed %d\n", key, r.Keys[key])
	}
	return nil
}

// moment formats a time for people, "-" for none.
func moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

type auditStatusCommand struct {
	storeFlags
	JSON bool `name:"json" help:"Print JSON."`
}

// Help returns the text that homeward audit status --help adds.
func (auditStatusCommand) Help() string { return storeHelp }

// auditStatus is the JSON of homeward audit status, for a region.
type auditStatus struct {
	Region string `json:"region"`
	// Exported: everything before it is in segments; absent if the export has not
	// begun.
	Exported time.Time `json:"exported,omitzero"`
	// Behind is the age of the oldest unexported window, in seconds.
	Behind float64 `json:"behind"`
	Number uint64  `json:"number"`
	Digest string  `json:"digest"`
	// Swept: rows before it were looked up in segments, and deleted if their claims
	// are.
	Swept time.Time `json:"swept,omitzero"`
}

func (c *auditStatusCommand) Run(ctx context.Context, io streams) error {
	var all []auditStatus
	if err := c.withRows(ctx, func(s *store) error {
		for _, region := range s.regions {
			chain, now, found, err := s.rows.AuditChain(ctx, region)
			if err != nil {
				return fmt.Errorf("region %s: %w", region, err)
			}
			one := auditStatus{Region: region, Exported: chain.From, Number: chain.Number, Digest: chain.Digest, Swept: chain.SweptUntil}
			if found {
				one.Behind = now.Sub(chain.From).Seconds()
			}
			all = append(all, one)
		}
		return nil
	}); err != nil {
		return err
	}
	if c.JSON {
		return indented(io, all)
	}
	t := exportColumns.list(io)
	for _, s := range all {
		behind := "not begun"
		if !s.Exported.IsZero() {
			behind = time.Duration(s.Behind * float64(time.Second)).Round(time.Second).String()
		}
		t.row(s.Region, s.Exported, behind, s.Number, s.Swept, s.Digest)
	}
	return t.Flush()
}

type auditKeyCommand struct {
	Public bool   `help:"Print the public keys of HOMEWARD_AUDIT_KEYS, for those who verify."`
	Data   string `type:"path" placeholder:"DIR" help:"With --public: those of a demo's --data directory."`
}

// Run prints only the key, so that the output can be redirected into a file.
func (c *auditKeyCommand) Run(io streams) error {
	if !c.Public {
		key, err := audit.NewKey()
		if err != nil {
			return err
		}
		_, err = fmt.Fprint(io.out, key)
		return err
	}
	keys, err := auditKeys(c.Data)
	if err != nil {
		return err
	}
	text, err := keys.Public()
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(io.out, text)
	return err
}
