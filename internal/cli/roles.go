package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/region"
	"github.com/homeward-io/homeward/region/admin"
)

// apart is the role of commands that read and change nothing of a deployment's rows, or that
// its owner alone can run.
const apart region.Role = 255

// roles are the roles that commands need: of the certificate, at a node. Elsewhere the
// database's role decides. What needs more than a reader is written to the audit.
var roles = map[string]region.Role{
	"regions": region.RoleReader, "top": region.RoleReader, "inspect": region.RoleReader,
	"region drain": region.RoleOperator, "region undrain": region.RoleOperator, "region down": region.RoleOperator, "region up": region.RoleOperator,
	"tenant list": region.RoleReader, "tenant keys": region.RoleReader,
	"tenant elapse": region.RoleOperator, // of test tenants alone
	"tenant create": region.RoleTreasurer, "tenant rotate-key": region.RoleTreasurer, "tenant set": region.RoleTreasurer, "tenant move-registrar": region.RoleTreasurer,
	"endpoint show": region.RoleReader,
	"endpoint set":  region.RoleTreasurer, "endpoint secret": region.RoleTreasurer, "endpoint remove": region.RoleTreasurer,
	"outbox list": region.RoleReader, "outbox retry": region.RoleOperator, "outbox park": region.RoleOperator,
	"compensations show": region.RoleReader, "compensations stop": region.RoleOperator, "compensations release": region.RoleTreasurer,
	"secrets show": region.RoleReader, "secrets rotate": region.RoleTreasurer,
	"audit verify": region.RoleReader, "audit show": region.RoleReader, "audit status": region.RoleReader, "audit export": region.RoleOperator,
	"ledger verify": region.RoleReader, "ledger balances": region.RoleReader, "ledger entries": region.RoleReader, "ledger adjust": region.RoleTreasurer,
	"account list": region.RoleReader, "account accept": region.RoleTreasurer,
	"restore show": region.RoleReader, "restore begin": region.RoleTreasurer, "restore audit": region.RoleTreasurer,
	"restore release": region.RoleTreasurer, "restore book": region.RoleTreasurer, "restore end": region.RoleTreasurer,
	"reconcile": region.RoleReader, // with --heal and --book a treasurer: see needs

	"demo": apart, "gateway run": apart, "gateway report": apart, "simulator": apart, "serve": apart, "config check": apart, "cluster": apart, "drill": apart,
	"migrate up": apart, "migrate plan": apart, "migrate status": apart, "migrate copy": apart, "migrate roles": apart,
	"secrets key": apart, "audit key": apart, "dev-certs": apart, "version": apart, "licenses": apart,
}

// needs returns the role that a command line needs.
func needs(parsed *kong.Context) region.Role {
	name := commandName(parsed.Selected())
	role, found := roles[name]
	if !found {
		return region.RoleTreasurer
	}
	if c, ok := reflect.TypeAssert[*reconcileCommand](parsed.Selected().Target.Addr()); ok && (c.Heal || c.Book) {
		return region.RoleTreasurer
	}
	return role
}

// commandName is a command as in roles.
func commandName(n *kong.Node) string {
	if n == nil {
		return ""
	}
	var words []string
	for ; n != nil && n.Type == kong.CommandNode; n = n.Parent {
		words = append(words, n.Name)
	}
	slices.Reverse(words)
	return strings.Join(words, " ")
}

// act is an operator's use of a command, for the audit. It is filled once the command line is
// parsed.
type act struct {
	by, what string
	role     region.Role
	recorded bool
}

type actKey struct{}

// withAct makes room for an act in the context of a command.
func withAct(ctx context.Context) (context.Context, *act) {
	a := &act{role: apart}
	return context.WithValue(ctx, actKey{}, a), a
}

// unsaid are flags that say where a command runs. None holds a secret.
var unsaid = []string{"node", "cluster", "cert", "key", "ca", "trust-domain", "data", "config", "json"}

// maxSaid bounds what is written of one command, in bytes: the ids of some hundred rows. A longer one
// is refused, as the audit would not have all of it.
const maxSaid = 16 << 10

// queryInURL matches a URL up to its query, and the query, which may hold a secret.
var queryInURL = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://[^?\s]*)\?\S*`)

// is fills a from a parsed command line.
func (a *act) is(by string, parsed *kong.Context) {
	a.by, a.role = by, needs(parsed)
	words := []string{commandName(parsed.Selected())}
	for _, at := range parsed.Path {
		switch {
		case at.Flag != nil && !slices.Contains(unsaid, at.Flag.Name):
			words = append(words, fmt.Sprintf("--%s=%v", at.Flag.Name, reflect.Indirect(at.Flag.Target).Interface()))
		case at.Positional != nil:
			words = append(words, fmt.Sprint(at.Positional.Target.Interface()))
		}
	}
	for i, w := range words {
		words[i] = queryInURL.ReplaceAllString(w, "$1")
	}
	a.what = strings.Join(strings.Fields(visible(strings.Join(words, " "))), " ")
}

// record writes the act of ctx to the audit before it is done, in the first region that
// answers. Without a record nothing is done.
func (s *store) record(ctx context.Context) error {
	a, ok := ctx.Value(actKey{}).(*act)
	if !ok || a.role == apart || a.role < region.RoleOperator || a.recorded {
		return nil
	}
	if len(a.what) > maxSaid {
		return fmt.Errorf("nothing was done, since the command has %d bytes, and the audit takes at most %d; name fewer rows at a time", len(a.what), maxSaid)
	}
	var errs []error
	for _, home := range s.regions {
		err := s.rows.AppendAudit(ctx, home, audit.ActorKey(a.by), claim.AuditEntry{Event: claim.EventActed, Detail: a.what})
		if err == nil {
			a.recorded = true
			return nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", home, err))
	}
	return fmt.Errorf("nothing was done, since it cannot be written to the audit who does it: %w", errors.Join(errs...))
}

// shellName names who runs a command without a certificate, as the operating system reports it.
func shellName() string {
	name, host := os.Getenv("USER"), "an unnamed host"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	return "shell of " + name + " at " + host
}

// certified returns who runs a command at a node by their certificate; "" for all others.
func certified(ctx context.Context) string {
	if _, here := ctx.Value(nodeKey{}).(node.Belongings); here {
		if _, ok := region.CallerOf(ctx); ok {
			return admin.CallerName(ctx)
		}
	}
	return ""
}

// refused is the error for a caller whose certificate lacks the role of a command.
func refused(ctx context.Context, parsed *kong.Context) error {
	who, ok := region.CallerOf(ctx)
	if role := needs(parsed); ok && (role == apart || who.Role < role) {
		return fmt.Errorf("%v may not run %s: it needs a certificate of the role %v", who, commandName(parsed.Selected()), role)
	}
	return nil
}
