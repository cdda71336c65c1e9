package relay

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
)

// metadata is where clouds hand out credentials to whoever asks from inside: link-local, Azure's
// 168.63.129.16 (a public address), AWS's address of IPv6, and Alibaba's.
var metadata = []netip.Prefix{
	netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("168.63.129.16/32"),
	netip.MustParsePrefix("fd00:ec2::254/128"), netip.MustParsePrefix("100.100.100.200/32"),
}

// deliverable returns a check for [net.Dialer].Control: an error, [ssrf.ErrProhibitedIP], for an
// address to which no event is sent. Metadata is refused always, what else is not public unless
// allowPrivate.
func deliverable(allowPrivate bool) func(network, address string, c syscall.RawConn) error {
	public := ssrf.New(ssrf.WithAnyPort()).Safe
	return func(network, address string, c syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("%w: %w", ssrf.ErrProhibitedIP, err)
		}
		for _, p := range metadata {
			if p.Contains(to.Addr().Unmap().WithZone("")) {
				return fmt.Errorf("%w: %s is of a cloud's metadata", ssrf.ErrProhibitedIP, to.Addr())
			}
		}
		if allowPrivate {
			return nil
		}
		return public(network, address, c)
	}
}

// lookupTime bounds the look-up of [CheckHost].
const lookupTime = 2 * time.Second

// CheckHost returns an error for a URL whose host has only addresses that nodes refuse, as they
// are here and now. A host that cannot be looked up is none: it may not be there yet, or be known
// to the nodes alone, which check the addresses at each delivery.
func CheckHost(ctx context.Context, text string, allowPrivate bool) error {
	u, err := url.Parse(text)
	if err != nil {
		return errors.New("the endpoint is not a URL; write https://host/path")
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
	if err != nil || len(addrs) == 0 {
		return nil
	}
	check := deliverable(allowPrivate)
	for _, a := range addrs {
		network := "tcp6"
		if a = a.Unmap(); a.Is4() {
			network = "tcp4"
		}
		if err = check(network, netip.AddrPortFrom(a, 443).String(), nil); err == nil {
			return nil
		}
	}
	return fmt.Errorf("the endpoint's host has the address %s, which is not public, and nodes refuse to deliver there; name a host that is public", addrs[0])
}
