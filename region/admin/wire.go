package admin

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminv1 "github.com/homeward-io/homeward/internal/gen/homeward/admin/v1"
	"github.com/homeward-io/homeward/region"
)

func toPart(p Part) *adminv1.PartResponse {
	return &adminv1.PartResponse{
		Node: p.Node, Region: p.Region, Version: p.Version, Epoch: p.Epoch, NotReady: p.NotReady,
		Requests: uint32(p.Requests), Forwards: uint32(p.Forwards), Traffic: toTraffic(p.Traffic), Silent: p.Silent,
	}
}

func fromPart(p *adminv1.PartResponse) *Part {
	if p == nil {
		return nil
	}
	return &Part{
		Node: p.GetNode(), Region: p.GetRegion(), Version: p.GetVersion(), Epoch: p.GetEpoch(), NotReady: p.GetNotReady(),
		Requests: int(p.GetRequests()), Forwards: int(p.GetForwards()), Traffic: fromTraffic(p.GetTraffic()), Silent: p.GetSilent(),
	}
}

func toTally(t Tally) *adminv1.Tally {
	return &adminv1.Tally{Requests: t.Requests, Replayed: t.Replayed, Refused: t.Refused, Failed: t.Failed}
}

func fromTally(t *adminv1.Tally) Tally {
	return Tally{Requests: t.GetRequests(), Replayed: t.GetReplayed(), Refused: t.GetRefused(), Failed: t.GetFailed()}
}

func toTraffic(t *Traffic) *adminv1.Traffic {
	if t == nil {
		return nil
	}
	out := &adminv1.Traffic{Since: toTimestamp(t.Since), Total: toTally(t.Total), Lately: toTally(t.Lately), DeputyFor: t.DeputyFor}
	for _, f := range t.Flows {
		out.Flows = append(out.Flows, &adminv1.Flow{Home: f.Home, Way: f.Way, Total: f.Total, Lately: f.Lately})
	}
	for _, m := range t.Mismatches {
		out.Mismatches = append(out.Mismatches, &adminv1.TenantCount{Tenant: m.Tenant, Count: m.Count})
	}
	for _, a := range t.Arrivals {
		out.Arrivals = append(out.Arrivals, &adminv1.Arrival{
			At: toTimestamp(a.At), Took: durationpb.New(a.Took), Operation: a.Operation, Tenant: a.Tenant, Key: a.Key, Object: a.Object,
			Home: a.Home, Way: a.Way, Hops: uint32(a.Hops), Status: uint32(a.Status), Code: a.Code, Replayed: a.Replayed,
		})
	}
	return out
}

func fromTraffic(t *adminv1.Traffic) *Traffic {
	if t == nil {
		return nil
	}
	out := &Traffic{Since: fromTimestamp(t.GetSince()), Total: fromTally(t.GetTotal()), Lately: fromTally(t.GetLately()), DeputyFor: t.GetDeputyFor()}
	for _, f := range t.GetFlows() {
		out.Flows = append(out.Flows, Flow{Home: f.GetHome(), Way: f.GetWay(), Total: f.GetTotal(), Lately: f.GetLately()})
	}
	for _, m := range t.GetMismatches() {
		out.Mismatches = append(out.Mismatches, TenantCount{m.GetTenant(), m.GetCount()})
	}
	for _, a := range t.GetArrivals() {
		out.Arrivals = append(out.Arrivals, Arrival{
			At: fromTimestamp(a.GetAt()), Took: a.GetTook().AsDuration(), Operation: a.GetOperation(), Tenant: a.GetTenant(), Key: a.GetKey(), Object: a.GetObject(),
			Home: a.GetHome(), Way: a.GetWay(), Hops: int(a.GetHops()), Status: int(a.GetStatus()), Code: a.GetCode(), Replayed: a.GetReplayed(),
		})
	}
	return out
}

func fromOverview(o *adminv1.OverviewResponse) *Overview {
	out := &Overview{Node: o.GetNode(), Epoch: o.GetEpoch()}
	for _, m := range o.GetMembers() {
		one := Member{
			Name: m.GetName(), Region: m.GetRegion(), RPCAddr: m.GetRpcAddr(), Version: m.GetVersion(),
			Draining: m.GetDraining(), Part: fromPart(m.GetPart()), Unknown: m.GetPartError(),
		}
		out.Members = append(out.Members, one)
	}
	for _, r := range o.GetRegions() {
		one := RegionState{
			Name: r.GetName(), Code: uint16(r.GetCode()), Status: region.Status(min(r.GetStatus(), 255)), RTT: -1,
			LastSeen: fromTimestamp(r.GetLastSeen()), Unknown: r.GetBacklogError(),
		}
		if r.GetRtt() != nil {
			one.RTT = r.GetRtt().AsDuration()
		}
		if b := r.GetBacklog(); b != nil {
			one.Backlog = &Backlog{
				InFlight: int(b.GetInFlight()), Pending: int(b.GetPending()), Due: int(b.GetDue()), Parked: int(b.GetParked()),
				OldestDue: fromTimestamp(b.GetOldestDue()),
			}
			for _, p := range b.GetParkedRows() {
				one.Backlog.ParkedRows = append(one.Backlog.ParkedRows, ParkedRow{p.GetId(), p.GetTenant(), p.GetReason()})
			}
		}
		out.Regions = append(out.Regions, one)
	}
	return out
}

// toTimestamp and fromTimestamp map the zero time, which protobuf does not have.
func toTimestamp(t time.Time) (wire *timestamppb.Timestamp) {
	if !t.IsZero() {
		wire = timestamppb.New(t)
	}
	return wire
}

func fromTimestamp(wire *timestamppb.Timestamp) (t time.Time) {
	if wire != nil {
		t = wire.AsTime()
	}
	return t
}
