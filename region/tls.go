package region

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/spiffetls/tlsconfig"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
)

const (
	// checkEvery is how often handshakes check whether the files have changed. A
	// handshake takes a millisecond and three calls of stat a few microseconds: the
	// bound is for slow network file systems.
	checkEvery = time.Second
	// expiresSoon is the part of a certificate's life, at its end, in which its files
	// should have been replaced: tools renew after two thirds.
	expiresSoon = 5 // a fifth
)

// Identity is the holder of a certificate: a node or an operator. The zero
// Identity names none.
type Identity struct {
	// Region and Node name the node; both are "" for an operator.
	Region, Node string
	// Operator names the person, or their tool; "" for a node.
	Operator string
	// Role is what the operator may do.
	Role Role
}

// Role is what an operator's certificate allows; each includes those before it. The zero
// Role allows the least.
type Role uint8

// The roles of operators.
const (
	// RoleReader looks.
	RoleReader Role = iota
	// RoleOperator runs the deployment: it drains regions, and requeues and parks rows.
	RoleOperator
	// RoleTreasurer moves the books, reads and changes secrets, and changes where money and
	// events go.
	RoleTreasurer
)

var roleNames = []string{"reader", "operator", "treasurer"}

func (r Role) String() string {
	if int(r) < len(roleNames) {
		return roleNames[r]
	}
	return fmt.Sprintf("role %d", uint8(r))
}

func (i Identity) String() string {
	if i.Operator != "" {
		return "operator " + i.Operator + " (" + i.Role.String() + ")"
	}
	return "node " + i.Node + " of " + i.Region
}

// URI is the one URI SAN of the identity's certificate:
//
//	spiffe://TRUST_DOMAIN/region/REGION/node/NAME
//	spiffe://TRUST_DOMAIN/operator/NAME/role/ROLE
//
// An operator's without a role is a reader's.
func (i Identity) URI(trustDomain string) (*url.URL, error) {
	domain, err := spiffeid.TrustDomainFromString(trustDomain)
	if err != nil {
		return nil, fmt.Errorf("%q is not a trust domain: %w", trustDomain, err)
	}
	segments := []string{"region", i.Region, "node", i.Node}
	if i.Operator != "" {
		segments = []string{"operator", i.Operator, "role", i.Role.String()}
	}
	id, err := spiffeid.FromSegments(domain, segments...)
	if err != nil {
		return nil, fmt.Errorf("%v cannot stand in a certificate: %w", i, err)
	}
	if _, err := identify(id); err != nil {
		return nil, err
	}
	return id.URL(), nil
}

func identify(id spiffeid.ID) (Identity, error) {
	parts := strings.Split(strings.TrimPrefix(id.Path(), "/"), "/")
	switch {
	case len(parts) == 4 && parts[0] == "region" && ValidName(parts[1]) && parts[2] == "node":
		return Identity{Region: parts[1], Node: parts[3]}, nil
	case len(parts) == 2 && parts[0] == "operator":
		return Identity{Operator: parts[1]}, nil
	case len(parts) == 4 && parts[0] == "operator" && parts[2] == "role":
		role := slices.Index(roleNames, parts[3])
		if role < 0 {
			return Identity{}, fmt.Errorf("%v has the role %q, which is none of %s", id, parts[3], strings.Join(roleNames, ", "))
		}
		return Identity{Operator: parts[1], Role: Role(role)}, nil
	default:
		return Identity{}, fmt.Errorf("%v is neither of the form spiffe://%[2]s/region/REGION/node/NAME nor spiffe://%[2]s/operator/NAME/role/ROLE", id, id.TrustDomain().Name())
	}
}

// ValidTrustDomain reports whether name can be a deployment's: lower case
// letters, digits, '.', '-' and '_', at most 255.
func ValidTrustDomain(name string) bool {
	domain, err := spiffeid.TrustDomainFromString(name)
	return err == nil && domain.Name() == name
}

// TLSConfig configures [TLS] for a node or a tool. All but RevokedFile, Region and Logger
// are required.
type TLSConfig struct {
	// CertFile is the certificate in PEM, followed by intermediate certificates.
	// KeyFile is its key, PKCS #8 in PEM. CAFile has the deployment's CAs in PEM, two
	// of them during a rotation. A CA with the URI spiffe://TRUST_DOMAIN/region/REGION signs
	// for nodes of that region alone.
	CertFile, KeyFile, CAFile string
	// RevokedFile has lists of revoked certificates (CRLs) in PEM or DER, of the CAs of
	// CAFile or of intermediate ones. Their holders are refused, on open connections, too.
	// "": none is revoked.
	RevokedFile string
	// TrustDomain is the deployment's trust domain. Certificates of any other are
	// refused, even if the same CA signed them.
	TrustDomain string
	// Region is where this node runs; its certificate must name it. "" for a
	// tool, which may have a node's or an operator's certificate.
	Region string
	// Logger logs reloads of the files, failed reloads and refused callers.
	// Default: discard.
	Logger *slog.Logger

	// clock replaces time.Now in tests.
	clock func() time.Time
}

// TLS is mutual TLS between nodes: TLS 1.3, with a certificate of the
// deployment's CA on both sides that names its holder. TLS does not check host
// names, since addresses come from gossip, where any member may be wrong: only
// the certificate proves a node's region.
//
// TLS reloads changed files at a handshake. It logs once, and does not use, files
// that are broken or that its own CA file would not accept; the present
// certificates stay in use.
//
// It is safe for concurrent use.
type TLS struct {
	cfg    TLSConfig
	domain spiffeid.TrustDomain
	log    *slog.Logger

	mu      sync.Mutex
	own     files[*credentials]
	revoked files[*revoked]
	checked time.Time
	// expiry and listAge: it was logged that they should have been replaced.
	expiry, listAge bool
}

// credentials is the result of one reading of the files. It does not change.
type credentials struct {
	svid     *x509svid.SVID
	bundle   *x509bundle.Bundle
	identity Identity
}

func (c *credentials) expires() time.Time { return c.svid.Certificates[0].NotAfter }

// Expire returns when this node's certificate expires, and when the first of the
// trusted CAs does.
func (t *TLS) Expire() (own, ca time.Time) {
	c := t.credentials()
	for _, authority := range c.bundle.X509Authorities() {
		if ca.IsZero() || authority.NotAfter.Before(ca) {
			ca = authority.NotAfter
		}
	}
	return c.expires(), ca
}

var (
	_ x509svid.Source   = (*TLS)(nil)
	_ x509bundle.Source = (*TLS)(nil)
)

// NewTLS reads the files. An error is one line and names the file.
func NewTLS(cfg TLSConfig) (*TLS, error) {
	domain, err := spiffeid.TrustDomainFromString(cfg.TrustDomain)
	if err != nil {
		return nil, fmt.Errorf("tls: %q is not a trust domain: %w", cfg.TrustDomain, err)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.clock == nil {
		cfg.clock = time.Now
	}
	t := &TLS{cfg: cfg, domain: domain, log: cfg.Logger, checked: cfg.clock()}
	t.own = files[*credentials]{paths: []string{cfg.CertFile, cfg.KeyFile, cfg.CAFile}, read: t.read}
	if err := t.own.open(); err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	if cfg.RevokedFile != "" {
		t.revoked = files[*revoked]{paths: []string{cfg.RevokedFile}, read: func() (*revoked, error) {
			return readRevoked(cfg.RevokedFile, t.own.have.bundle.X509Authorities())
		}}
		if err := t.revoked.open(); err != nil {
			return nil, fmt.Errorf("tls: the list of revoked certificates %s cannot be used: %w", cfg.RevokedFile, err)
		}
	}
	t.warn(t.checked)
	return t, nil
}

// Identity returns the identity of this node or tool.
func (t *TLS) Identity() Identity { return t.credentials().identity }

// Server returns the configuration of a listener. Callers must be nodes or
// operators of the deployment; [CallerOf] returns which.
func (t *TLS) Server() *tls.Config {
	c := tlsconfig.MTLSServerConfig(t, t, func(id spiffeid.ID, chains [][]*x509.Certificate) error {
		who, err := identify(id)
		if err != nil {
			return err
		}
		return t.check(who, chains)
	})
	c.MinVersion = tls.VersionTLS13
	// A resumed session would not verify the caller's certificate again, which may have
	// expired, nor the CAs, of which its own may be gone.
	c.SessionTicketsDisabled = true
	return c
}

// Client returns the configuration to dial a node of region, "" for any.
func (t *TLS) Client(region string) *tls.Config {
	c := tlsconfig.MTLSClientConfig(t, t, func(id spiffeid.ID, chains [][]*x509.Certificate) error {
		who, err := identify(id)
		switch {
		case err != nil:
			return err
		case who.Region == "":
			return fmt.Errorf("the certificate is that of %v, which is not a node", who)
		case region != "" && who.Region != region:
			return fmt.Errorf("the certificate is that of %v, which is not a node of %s", who, region)
		default:
			return t.check(who, chains)
		}
	})
	c.MinVersion = tls.VersionTLS13
	return c
}

// GetX509SVID implements x509svid.Source for package tlsconfig.
func (t *TLS) GetX509SVID() (*x509svid.SVID, error) { return t.credentials().svid, nil }

// GetX509BundleForTrustDomain implements x509bundle.Source for package
// tlsconfig. It has the bundle of one deployment.
func (t *TLS) GetX509BundleForTrustDomain(domain spiffeid.TrustDomain) (*x509bundle.Bundle, error) {
	return t.credentials().bundle.GetX509BundleForTrustDomain(domain)
}

// check returns an error if a verified chain does not let who have its certificate.
func (t *TLS) check(who Identity, chains [][]*x509.Certificate) error {
	for _, chain := range chains {
		if err := errors.Join(signedFor(who, chain), t.checkRevoked(chain)); err != nil {
			return err
		}
	}
	return nil
}

// signedFor returns an error if a CA of a chain does not sign for who: one whose own certificate
// has the URI spiffe://TRUST_DOMAIN/region/REGION signs for nodes of that region alone, so that
// its key, which a region's cluster has, makes no other region's node and no operator. X.509's
// name constraints cannot say this, as they end at a URI's host.
func signedFor(who Identity, chain []*x509.Certificate) error {
	for _, ca := range chain[1:] {
		for _, uri := range ca.URIs {
			id, err := spiffeid.FromURI(uri)
			if err != nil {
				return fmt.Errorf("a CA has the URI %v: %w", uri, err)
			}
			region, of := strings.CutPrefix(id.Path(), "/region/")
			if id.Path() != "" && (!of || who.Operator != "" || region != who.Region) {
				return fmt.Errorf("the CA %v signs for nodes of its region alone, and not for %v", id, who)
			}
		}
	}
	return nil
}

// checkRevoked returns an error if a certificate of a chain is revoked by the newest list.
func (t *TLS) checkRevoked(chain []*x509.Certificate) error {
	c := t.credentials()
	t.mu.Lock()
	list := t.revoked.have
	t.mu.Unlock()
	return list.check(chain, c.bundle.X509Authorities())
}

// pageRevoked is a constant because it pages an operator; see docs/RUNBOOK.md.
const pageRevoked = "page: the list of revoked certificates has changed and cannot be used; the former one stays in use"

// checkList reads a changed list of revoked certificates. The caller holds mu.
func (t *TLS) checkList(now time.Time) {
	if t.cfg.RevokedFile == "" {
		return
	}
	switch reloaded, failed := t.revoked.check(); {
	case failed != nil:
		t.log.Error(pageRevoked, "file", t.cfg.RevokedFile, "error", failed)
	case reloaded:
		t.listAge = false
		t.log.Info("the list of revoked certificates was reloaded", "file", t.cfg.RevokedFile, "certificates", len(t.revoked.have.by))
	}
	if at := t.revoked.have.oldest(); !t.listAge && !at.IsZero() && now.After(at) {
		t.listAge = true
		t.log.Warn("the list of revoked certificates should have been replaced; it stays in use, and lacks what was revoked since", "file", t.cfg.RevokedFile, "next_update", at)
	}
}

// credentials returns the newest valid ones, and reads the list of revoked certificates.
func (t *TLS) credentials() *credentials {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.cfg.clock()
	if now.Sub(t.checked).Abs() < checkEvery {
		return t.own.have
	}
	t.checked = now
	switch reloaded, failed := t.own.check(); {
	case failed != nil:
		t.log.Warn("the certificates have changed and cannot be used; the present ones stay in use", "error", failed, "expires", t.own.have.expires())
	case reloaded:
		t.expiry = false
		t.log.Info("the certificates have changed and were reloaded", "identity", t.own.have.identity.String(), "expires", t.own.have.expires())
	}
	t.warn(now)
	t.checkList(now)
	return t.own.have
}

// warn logs once for each certificate that it should have been replaced.
func (t *TLS) warn(now time.Time) {
	leaf := t.own.have.svid.Certificates[0]
	if t.expiry || leaf.NotAfter.Sub(now) > leaf.NotAfter.Sub(leaf.NotBefore)/expiresSoon {
		return
	}
	t.expiry = true
	t.log.Warn("this node's certificate expires soon and has not been replaced; other regions will then refuse this node", "file", t.cfg.CertFile, "expires", leaf.NotAfter)
}

// read returns the credentials if other nodes would accept them.
func (t *TLS) read() (*credentials, error) {
	svid, err := x509svid.Load(t.cfg.CertFile, t.cfg.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("certificate %s with key %s: %w", t.cfg.CertFile, t.cfg.KeyFile, err)
	}
	bundle, err := x509bundle.Load(t.domain, t.cfg.CAFile)
	if err != nil {
		return nil, fmt.Errorf("CA file %s: %w", t.cfg.CAFile, err)
	}
	identity, err := identify(svid.ID)
	switch {
	case err != nil:
		return nil, fmt.Errorf("certificate %s: %w", t.cfg.CertFile, err)
	case svid.ID.TrustDomain() != t.domain:
		return nil, fmt.Errorf("certificate %s is of the trust domain %s, and this deployment's is %s", t.cfg.CertFile, svid.ID.TrustDomain().Name(), t.domain.Name())
	case t.cfg.Region != "" && identity.Region != t.cfg.Region:
		return nil, fmt.Errorf("certificate %s is that of %v, and this node is of %s", t.cfg.CertFile, identity, t.cfg.Region)
	}
	_, chains, err := x509svid.Verify(svid.Certificates, bundle, x509svid.WithTime(t.cfg.clock()))
	for i := 0; err == nil && i < len(chains); i++ {
		err = signedFor(identity, chains[i])
	}
	if err != nil {
		return nil, fmt.Errorf("certificate %s is not valid by CA file %s: %w", t.cfg.CertFile, t.cfg.CAFile, err)
	}
	return &credentials{svid, bundle, identity}, nil
}

// callerOf returns the identity of an established connection.
func callerOf(state *tls.ConnectionState, now time.Time) (Identity, error) {
	if state == nil || len(state.PeerCertificates) == 0 {
		return Identity{}, errors.New("no certificate was presented")
	}
	leaf := state.PeerCertificates[0]
	id, err := x509svid.IDFromCert(leaf)
	if err != nil {
		return Identity{}, err
	}
	if now.After(leaf.NotAfter) {
		return Identity{}, fmt.Errorf("the certificate of %v has expired since the connection was made", id)
	}
	return identify(id)
}

type callerKey struct{}

// CallerOf returns the identity of the sender of ctx's request, from the
// certificate of its connection. ok is false without TLS, which is meant for one
// machine only.
func CallerOf(ctx context.Context) (who Identity, ok bool) {
	who, ok = ctx.Value(callerKey{}).(Identity)
	return who, ok
}

func withCaller(ctx context.Context, who Identity) context.Context {
	return context.WithValue(ctx, callerKey{}, who)
}

// notAdmittedError: the caller's certificate does not let it do what it asks
// for. Nothing ran.
type notAdmittedError struct {
	caller Identity
	reason string
}

func (e *notAdmittedError) Error() string { return e.caller.String() + " " + e.reason }

// admitNode refuses callers that may not forward: those that are not nodes, and nodes that send for
// an entry region ("" if the message has none) that is not their own. Without TLS it admits every
// caller.
func admitNode(ctx context.Context, entry string) error {
	who, ok := CallerOf(ctx)
	switch {
	case !ok:
		return nil
	case who.Region == "":
		return &notAdmittedError{who, "is no node, and only nodes may forward"}
	case entry != "" && entry != who.Region:
		return &notAdmittedError{who, "may not forward for " + entry}
	default:
		return nil
	}
}

// handshakeLog turns net/http's lines into records of callers that failed the
// handshake.
type handshakeLog struct{ to *slog.Logger }

// Write takes one line, as log.Logger guarantees.
func (l handshakeLog) Write(line []byte) (int, error) {
	text := string(bytes.TrimSpace(line))
	rest, isTLS := strings.CutPrefix(text, "http: TLS handshake error from ")
	addr, reason, parsed := strings.Cut(rest, ": ")
	switch {
	case !isTLS || !parsed:
		l.to.Warn("the peer listener reported an error", "error", text)
	case reason == "EOF":
		// The caller disconnected without sending anything, as probes of an open port
		// do.
		l.to.Debug("a peer connection was closed before its handshake", "remote", addr)
	default:
		l.to.Warn("a peer connection was refused", "remote", addr, "error", reason)
	}
	return len(line), nil
}
