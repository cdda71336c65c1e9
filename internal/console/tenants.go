package console

import (
	"net/http"
	"time"

	"github.com/homeward-io/homeward/region/admin"
)

// tenantsShown bounds the list: each node counts a hundred by name.
const tenantsShown = 200

// tenantView is a tenant that reuses keys for other requests: usually its client derives
// keys from something that two requests share.
type tenantView struct {
	Tenant string
	Count  uint64
	Share  int // of the most, in percent
}

type tenantsView struct {
	Tenants []tenantView
	Since   time.Time // the youngest node's start, since which all have counted
	Silent  []string  // nodes that did not answer
}

// tenantsPage shows which tenants reuse keys for other requests.
func (s *console) tenantsPage(r *http.Request, p *page) error {
	all, err := s.watch.look(r.Context())
	if err != nil {
		return err
	}
	traffic, silent := all.Traffic("")
	v := &tenantsView{Since: traffic.Since, Silent: silent}
	mismatches := ofSide(p, traffic.Mismatches, func(c *admin.TenantCount) string { return c.Tenant })
	for _, c := range mismatches[:min(len(mismatches), tenantsShown)] {
		v.Tenants = append(v.Tenants, tenantView{Tenant: c.Tenant, Count: c.Count})
	}
	for i := range v.Tenants {
		v.Tenants[i].Share = int(100 * v.Tenants[i].Count / v.Tenants[0].Count)
	}
	p.Body = v
	return nil
}
