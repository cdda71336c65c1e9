package relay

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"testing"
)

// FuzzEndpoint checks arbitrary URLs as endpoints. One that is accepted has a host that can be
// named, no password and nothing that is not sent, and the client sends to the host that was
// checked. An address is delivered to only if it is public.
func FuzzEndpoint(f *testing.F) {
	for _, text := range []string{
		"https://example.com/hook?x=1", "http://example.com:8080/", "https://user:secret@example.com/", "https://[::1]:443/", "https://example.com#x",
		"https://EXAMPLE.com:443", "https://169.254.169.254/latest/meta-data", "https://[::ffff:10.0.0.1]/", "https://2130706433/", "https:example.com", "https://a b/", "https://:443/",
		"https://example.com:/", "https://example.com:99999/", "https://[fe80::1%25eth0]/", "https://xn--bcher-kva.example/",
	} {
		f.Add(text, []byte{10, 0, 0, 1})
	}
	f.Add("", netip.MustParseAddr("fd00:ec2::254").AsSlice())
	f.Fuzz(func(t *testing.T, text string, ip []byte) {
		if addr, ok := netip.AddrFromSlice(ip); ok {
			checkAddress(t, addr)
		}
		if err := CheckURL(text, true); err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Fatalf("%q: %q is not one line", text, err)
			}
			return
		}
		u, err := url.Parse(text)
		if err != nil || u.Hostname() == "" || u.User != nil || u.Fragment != "" || len(text) > maxURL {
			t.Fatalf("%q was accepted: %+v, %v", text, u, err)
		}
		if port := u.Port(); port != "" {
			if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
				t.Fatalf("%q was accepted, with a port that nothing listens on", text)
			}
		}
		if secure := CheckURL(text, false) == nil; secure != (u.Scheme == "https") {
			t.Fatalf("%q is accepted as https: %v", text, secure)
		}
		again, err := url.Parse(u.String())
		if err != nil || again.Host != u.Host || again.Scheme != u.Scheme {
			t.Fatalf("%q is sent to %v, %v", text, again, err)
		}
	})
}

func checkAddress(t *testing.T, addr netip.Addr) {
	t.Helper()
	network := "tcp6"
	if addr = addr.Unmap(); addr.Is4() {
		network = "tcp4"
	}
	at := netip.AddrPortFrom(addr, 443).String()
	for _, private := range []bool{false, true} {
		err := deliverable(private)(network, at, nil)
		public := addr.IsGlobalUnicast() && !addr.IsPrivate()
		if err == nil && (addr.IsLinkLocalUnicast() || !private && !public) {
			t.Fatalf("%v is delivered to, private %v", addr, private)
		}
	}
}
