package console

import (
	"context"
	"net"
	"net/http"
	"net/netip"

	"github.com/homeward-io/homeward/region"
)

// Who is a user of the console.
type Who struct {
	// Name is for people, and for the audit of their actions.
	Name string
	// Operator may act if actions are on, as [region.RoleOperator]; others only look.
	Operator bool
	// Logout is the path at which a POST ends their session; "": there is none to end.
	Logout string
}

// Access decides who may look. Implementations are safe for concurrent use.
type Access interface {
	// Wrap passes authorised requests to next, with [Who] in their context, and answers
	// the others itself.
	Wrap(next http.Handler) http.Handler
}

type whoKey struct{}

func withWho(r *http.Request, who Who) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), whoKey{}, who))
}

// whoOf returns the zero Who for an unauthenticated request.
func whoOf(ctx context.Context) Who {
	who, _ := ctx.Value(whoKey{}).(Who)
	return who
}

// ThisMachine admits every caller on this machine as an operator; it is for the demo. The
// host name of the request must be this machine's, too, so that DNS rebinding is refused.
type ThisMachine struct{}

// Wrap implements [Access].
func (ThisMachine) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		remote, err := netip.ParseAddrPort(r.RemoteAddr)
		if err != nil || !remote.Addr().Unmap().IsLoopback() {
			http.Error(w, "this console is for callers on its own machine", http.StatusForbidden)
			return
		}
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) {
			http.Error(w, "open this console by its address, as in http://127.0.0.1:PORT", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, withWho(r, Who{Name: "a user of this machine", Operator: true}))
	})
}

// Certificates admits callers with an operator's certificate of the deployment, on a
// listener of [region.NewServer].
type Certificates struct{}

// Wrap implements [Access].
func (Certificates) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, ok := region.CallerOf(r.Context())
		switch {
		case !ok:
			http.Error(w, "this console needs an operator's certificate", http.StatusForbidden)
		case who.Operator == "":
			http.Error(w, who.String()+" is not an operator; use an operator's certificate", http.StatusForbidden)
		default:
			next.ServeHTTP(w, withWho(r, Who{Name: who.String(), Operator: who.Role >= region.RoleOperator}))
		}
	})
}
