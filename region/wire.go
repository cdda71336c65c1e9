package region

import (
	"fmt"
	"math"
	"time"

	"github.com/homeward-io/homeward/claim"
	peerv1 "github.com/homeward-io/homeward/internal/gen/homeward/peer/v1"
)

// Limits of one message between nodes.
const (
	// MaxMessageBytes bounds a request and a response: four times the public API's
	// largest body (1 MiB), since canonical numbers can be longer than the input and a
	// response repeats parts of the request.
	MaxMessageBytes = 4 << 20
	// MaxHops is how many forwards one request may take: one to where its home is
	// believed to be, one more after a WrongHomeError.
	MaxHops = 2

	// Limits of the parts of a request, in bytes. They are far above what the public
	// API accepts, and bound the damage of a broken peer.
	maxTenant      = 255
	maxOperation   = 64
	maxMethod      = 32
	maxPath        = 2048
	maxContentType = 1024
	maxProvider    = 255 // far above the longest name
	maxObjectID    = claim.MaxPrefixLength + 1 + 26
	// A W3C traceparent of version 00 has 55 characters; later ones may append.
	maxTraceParent = 128
	// No request runs for that long.
	maxUnderWay = 24 * time.Hour
)

func toExecuteRequest(home string, req *claim.Request, hops int, entry string) *peerv1.ExecuteRequest {
	m := &peerv1.ExecuteRequest{
		Tenant:        req.Key.Tenant,
		Key:           req.Key.Value,
		Home:          home,
		Operation:     req.Operation,
		Method:        req.Input.Method,
		Path:          req.Input.Path,
		ContentType:   req.Input.ContentType,
		CanonicalBody: req.Input.Canonical,
		PinnedAt:      toTimestamp(req.PinnedAt),
		Hops:          int32(min(hops, math.MaxInt32)),
		Entry:         entry,
		UnderWayUs:    req.UnderWay().Microseconds(),
		CompareOnly:   req.CompareOnly,
		Provider:      req.Provider,
		Payload:       req.Payload,
		Reverses:      req.Reverses,
		Unstored:      req.Unstored,
	}
	if req.Also != (claim.Fingerprint{}) {
		m.Also, m.AlsoVersion = req.Also.Sum[:], uint32(req.Also.Version)
	}
	return m
}

// toDeputy is toExecuteRequest to a deputy in region, which finds the home, and the pin, by itself.
func toDeputy(region string, req *claim.Request, hops int, entry string) *peerv1.ExecuteRequest {
	m := toExecuteRequest(region, req, hops, entry)
	m.Deputy, m.PreferHome, m.PinnedAt = true, uint32(req.PreferHome), nil
	return m
}

// fromExecuteRequest checks and converts. It reads off the key whether it is stamped,
// so that no sender can claim otherwise. The tenant of the fingerprint is the key's, so
// that the two cannot differ.
func fromExecuteRequest(m *peerv1.ExecuteRequest) (claim.Request, error) {
	key, err := fromKey(m.GetTenant(), m.GetKey())
	if err != nil {
		return claim.Request{}, err
	}
	for _, part := range []struct {
		name, value string
		limit       int
		required    bool
	}{
		{"operation", m.GetOperation(), maxOperation, true},
		{"method", m.GetMethod(), maxMethod, true},
		{"path", m.GetPath(), maxPath, true},
		{"content_type", m.GetContentType(), maxContentType, false},
		{"provider", m.GetProvider(), maxProvider, false},
		{"reverses", m.GetReverses(), maxObjectID, false},
	} {
		if err := checkLength(part.name, part.value, part.limit, part.required); err != nil {
			return claim.Request{}, err
		}
	}
	switch {
	case len(m.GetCanonicalBody()) == 0:
		return claim.Request{}, &badRequestError{"canonical_body is missing"}
	case !ValidName(m.GetEntry()):
		return claim.Request{}, &badRequestError{"entry is not a region name"}
	case m.GetHops() < 1:
		return claim.Request{}, &badRequestError{"hops must count this forward"}
	case m.GetHops() > MaxHops:
		return claim.Request{}, ErrHopLimit
	case m.GetDeputy() && m.PinnedAt != nil:
		return claim.Request{}, &badRequestError{"a deputy reads the pin by itself"}
	case m.GetPreferHome() > math.MaxUint16 || m.GetPreferHome() != 0 && !m.GetDeputy():
		return claim.Request{}, &badRequestError{"prefer_home is a region code, and for a deputy"}
	case m.PinnedAt != nil && !m.PinnedAt.IsValid():
		return claim.Request{}, &badRequestError{"pinned_at is not a time"}
	case m.GetUnderWayUs() < 0 || m.GetUnderWayUs() > maxUnderWay.Microseconds():
		return claim.Request{}, &badRequestError{fmt.Sprintf("under_way_us must be from 0 to %d", maxUnderWay.Microseconds())}
	}
	also, err := fromFingerprint(m.GetAlso(), m.GetAlsoVersion())
	if err != nil {
		return claim.Request{}, err
	}
	stamp, _ := claim.ReadStamp(key.Value) // the key decides, whatever the sender claims
	return claim.Request{
		Key:       key,
		Also:      also,
		Operation: m.GetOperation(),
		Input: claim.FingerprintInput{
			Method:      m.GetMethod(),
			Path:        m.GetPath(),
			Tenant:      key.Tenant,
			ContentType: m.GetContentType(),
			Canonical:   m.GetCanonicalBody(),
		},
		Payload:     m.GetPayload(),
		Reverses:    m.GetReverses(),
		Unstored:    m.GetUnstored(),
		CompareOnly: m.GetCompareOnly(),
		Provider:    m.GetProvider(),
		Stamp:       stamp,
		PinnedAt:    fromTimestamp(m.PinnedAt),
		PreferHome:  claim.RegionCode(m.GetPreferHome()),
		Began:       time.Now().Add(-time.Duration(m.GetUnderWayUs()) * time.Microsecond),
	}, nil
}

func fromFingerprint(sum []byte, version uint32) (f claim.Fingerprint, err error) {
	if len(sum) == 0 {
		return f, nil
	}
	if copy(f.Sum[:], sum) != len(sum) || len(sum) != len(f.Sum) || version == 0 || version > math.MaxUint8 {
		return f, &badRequestError{"also is not a fingerprint"}
	}
	f.Version = claim.FingerprintVersion(version)
	return f, nil
}

func fromKey(tenant, value string) (claim.Key, error) {
	if err := checkLength("tenant", tenant, maxTenant, true); err != nil {
		return claim.Key{}, err
	}
	if err := checkLength("key", value, claim.MaxKeyLength, true); err != nil {
		return claim.Key{}, err
	}
	if !claim.ValidKey(value) {
		return claim.Key{}, &badRequestError{"key is not visible ASCII in its normal form, nor one of our own"}
	}
	return claim.Key{Tenant: tenant, Value: value}, nil
}

func checkLength(name, value string, limit int, required bool) error {
	if required && value == "" {
		return &badRequestError{name + " is missing"}
	}
	if len(value) > limit {
		return &badRequestError{fmt.Sprintf("%s is longer than %d bytes", name, limit)}
	}
	return nil
}

// toTenant returns what an entry needs of a tenant.
func toTenant(t *claim.Tenant) *peerv1.TenantResponse {
	return &peerv1.TenantResponse{
		Id: t.ID, Name: t.Name, Registrar: t.Registrar, RatePerSecond: t.RatePerSecond, Burst: int64(t.Burst),
		CardNumbers: string(t.CardNumbers), Routes: t.Routes,
	}
}

// fromTenant fails for what no store has.
func fromTenant(m *peerv1.TenantResponse) (claim.Tenant, error) {
	if len(m.GetId()) > maxTenant || !ValidName(m.GetRegistrar()) || m.GetBurst() < 0 || m.GetBurst() > math.MaxInt32 ||
		!(m.GetRatePerSecond() >= 0) || math.IsInf(m.GetRatePerSecond(), 0) {
		return claim.Tenant{}, fmt.Errorf("%w: its tenant cannot be one", ErrPeerFailed)
	}
	return claim.Tenant{
		ID: m.GetId(), Name: m.GetName(), Registrar: m.GetRegistrar(), RatePerSecond: m.GetRatePerSecond(), Burst: int(m.GetBurst()),
		CardNumbers: claim.CardNumbers(m.GetCardNumbers()), Routes: m.GetRoutes(),
	}, nil
}

func toResponse(r *claim.Response) *peerv1.Response {
	out := &peerv1.Response{Status: int32(r.Status), Body: r.Body, Blob: r.Blob, ReplayFor: r.ReplayFor.Microseconds()}
	if len(r.Header) > 0 {
		out.Headers = make([]*peerv1.Header, len(r.Header))
		for i, h := range r.Header {
			out.Headers[i] = &peerv1.Header{Name: h.Name, Value: h.Value}
		}
	}
	return out
}

// fromResponse fails if there is no response for a caller.
func fromResponse(m *peerv1.Response) (claim.Response, error) {
	if s := m.GetStatus(); s < 200 || s > 599 {
		return claim.Response{}, fmt.Errorf("%w: its response has status %d", ErrPeerFailed, s)
	}
	out := claim.Response{Status: int(m.GetStatus()), Body: m.GetBody(), Blob: m.GetBlob(), ReplayFor: time.Duration(m.GetReplayFor()) * time.Microsecond}
	if len(m.GetHeaders()) > 0 {
		out.Header = make([]claim.HeaderField, len(m.GetHeaders()))
		for i, h := range m.GetHeaders() {
			out.Header[i] = claim.HeaderField{Name: h.GetName(), Value: h.GetValue()}
		}
	}
	return out, nil
}

func toExecuteResponse(r *claim.Reply) *peerv1.ExecuteResponse {
	return &peerv1.ExecuteResponse{
		Response:  toResponse(&r.Response),
		Home:      r.Home,
		State:     uint32(r.State),
		Replayed:  r.Replayed,
		FirstUse:  toTimestamp(r.FirstUse),
		ExpiresAt: toTimestamp(r.ExpiresAt),
		ServedBy:  r.ServedBy,
	}
}

func fromExecuteResponse(m *peerv1.ExecuteResponse) (claim.Reply, error) {
	response, err := fromResponse(m.GetResponse())
	if err != nil {
		return claim.Reply{}, err
	}
	state, err := fromState(m.GetState())
	if err != nil {
		return claim.Reply{}, err
	}
	return claim.Reply{
		Response:  response,
		Home:      m.GetHome(),
		State:     state,
		Replayed:  m.GetReplayed(),
		FirstUse:  fromTimestamp(m.FirstUse),
		ExpiresAt: fromTimestamp(m.ExpiresAt),
		ServedBy:  m.GetServedBy(),
	}, nil
}

func fromState(s uint32) (claim.State, error) {
	if s < uint32(claim.InFlight) || s > uint32(claim.FailedRetry) {
		return 0, fmt.Errorf("%w: its state %d is unknown to this version", ErrPeerFailed, s)
	}
	return claim.State(s), nil
}

// toInspectResponse carries only what a merchant may read of its key: no fingerprint, holder or
// provider key.
func toInspectResponse(s *claim.Status, found bool) *peerv1.InspectResponse {
	if !found {
		return &peerv1.InspectResponse{}
	}
	r := &s.Record
	out := &peerv1.InspectResponse{
		Found:      true,
		Home:       r.Home,
		State:      uint32(r.State),
		Age:        uint32(s.Age),
		ObjectId:   r.Minted.ID,
		Operation:  r.Operation,
		Attempts:   r.Attempts,
		Generation: r.Generation,
		Reason:     r.Reason,
		FirstUse:   toTimestamp(r.FirstUse),
		ExpiresAt:  toTimestamp(s.ExpiresAt),
		FreeAt:     toTimestamp(s.FreeAt),
		Timeline:   make([]*peerv1.TimelineEntry, len(s.Timeline)),
	}
	for i := range s.Timeline {
		e := &s.Timeline[i]
		out.Timeline[i] = &peerv1.TimelineEntry{
			At:         toTimestamp(e.At),
			Event:      string(e.Event),
			Region:     e.Region,
			Node:       e.Node,
			Fence:      e.Fence,
			Generation: e.Generation,
			Detail:     e.Detail,
		}
	}
	return out
}

func fromInspectResponse(key claim.Key, m *peerv1.InspectResponse) (claim.Status, bool, error) {
	if !m.GetFound() {
		return claim.Status{}, false, nil
	}
	state, err := fromState(m.GetState())
	if err != nil {
		return claim.Status{}, false, err
	}
	if m.GetAge() > uint32(claim.Gone) {
		return claim.Status{}, false, fmt.Errorf("%w: its age %d is unknown to this version", ErrPeerFailed, m.GetAge())
	}
	s := claim.Status{
		Record: claim.Record{
			Key:        key,
			Home:       m.GetHome(),
			Operation:  m.GetOperation(),
			State:      state,
			FirstUse:   fromTimestamp(m.FirstUse),
			Minted:     claim.Minted{ID: m.GetObjectId()},
			Generation: m.GetGeneration(),
			Attempts:   m.GetAttempts(),
			Reason:     m.GetReason(),
		},
		Age:       claim.Age(m.GetAge()),
		ExpiresAt: fromTimestamp(m.ExpiresAt),
		FreeAt:    fromTimestamp(m.FreeAt),
	}
	if len(m.GetTimeline()) > 0 {
		s.Timeline = make([]claim.AuditEntry, len(m.GetTimeline()))
	}
	for i, e := range m.GetTimeline() {
		s.Timeline[i] = claim.AuditEntry{
			At:         fromTimestamp(e.At),
			Event:      claim.Event(e.GetEvent()),
			Region:     e.GetRegion(),
			Node:       e.GetNode(),
			Fence:      e.GetFence(),
			Generation: e.GetGeneration(),
			Detail:     e.GetDetail(),
		}
	}
	return s, true, nil
}
