package console

import (
	"cmp"
	"net/http"
	"slices"
	"time"
)

// tenantsShown bounds the list: each node counts a hundred by name.
const tenantsShown = 200

// tenantView is a tenant that reuses keys for other requests: usually its client
// derives the key from something other than the request.
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
	v := &tenantsView{}
	counts := map[string]uint64{}
	for _, m := range all.Members {
		if m.Part == nil || m.Part.Traffic == nil {
			v.Silent = append(v.Silent, m.Name)
			continue
		}
		if since := m.Part.Traffic.Since; since.After(v.Since) {
			v.Since = since
		}
		for _, c := range m.Part.Traffic.Mismatches {
			counts[c.Tenant] += c.Count
		}
	}
	for tenant, n := range counts {
		v.Tenants = append(v.Tenants, tenantView{Tenant: tenant, Count: n})
	}
	slices.SortFunc(v.Tenants, func(a, b tenantView) int {
		return cmp.Or(-cmp.Compare(a.Count, b.Count), cmp.Compare(a.Tenant, b.Tenant))
	})
	v.Tenants = v.Tenants[:min(len(v.Tenants), tenantsShown)]
	for i := range v.Tenants {
		v.Tenants[i].Share = int(100 * v.Tenants[i].Count / v.Tenants[0].Count)
	}
	p.Body = v
	return nil
}
