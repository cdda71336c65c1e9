package admin

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	adminv1 "github.com/homeward-io/homeward/internal/gen/homeward/admin/v1"
	"github.com/homeward-io/homeward/region"
)

func toPart(p Part) *adminv1.PartResponse {
	return &adminv1.PartResponse{
		Node: p.Node, Region: p.Region, Version: p.Version, Epoch: p.Epoch, NotReady: p.NotReady,
		Requests: uint32(p.Requests), Forwards: uint32(p.Forwards),
	}
}

func fromPart(p *adminv1.PartResponse) *Part {
	if p == nil {
		return nil
	}
	return &Part{
		Node: p.GetNode(), Region: p.GetRegion(), Version: p.GetVersion(), Epoch: p.GetEpoch(), NotReady: p.GetNotReady(),
		Requests: int(p.GetRequests()), Forwards: int(p.GetForwards()),
	}
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

// toTimestamp and fromTimestamp keep the zero time, which protobuf has not.
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
