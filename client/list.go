package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// PageParams are which page of a list is read. After or Before is the ID of the last object of the page
// before, or of the first one of the page after; both are "" for the first page. Limit is how many
// objects a page has at most: 1 to 100, 0 for 10.
type PageParams struct {
	After, Before string
	Limit         int
}

// ChargeListParams are the parameters of [Client.ListCharges].
type ChargeListParams struct {
	PageParams
	// OrderID is that of the charges; "" for any.
	OrderID string
	// From and Until are when they were created, in whole seconds: From is included and Until is not.
	// Zero is no bound.
	From, Until time.Time
}

// List is a page of a list, the latest first. HasMore is about the direction that was asked for.
type List[T any] struct {
	Data    []T  `json:"data"`
	HasMore bool `json:"has_more"`

	// Answer describes the response that carried the page.
	Answer Answer `json:"-"`
}

func (l *List[T]) setAnswer(a Answer) { l.Answer = a }

func (l *List[T]) whole() bool { return l.Data != nil }

// ListCharges reads a page of the charges for which money moved, as the books have them: without their
// Refunds, and of what was sent with OrderID and Metadata alone. An error with the Code
// "home_unavailable" means that the books of a region cannot be reached.
func (cl *Client) ListCharges(ctx context.Context, p ChargeListParams) (*List[Charge], error) {
	q := p.query()
	if p.OrderID != "" {
		q.Set("order_id", p.OrderID)
	}
	for name, at := range map[string]time.Time{"created[gte]": p.From, "created[lt]": p.Until} {
		if !at.IsZero() {
			q.Set(name, strconv.FormatInt(at.Unix(), 10))
		}
	}
	return list[Charge](ctx, cl, "/v1/charges", q)
}

// ListRefunds reads a page of the refunds of a charge.
func (cl *Client) ListRefunds(ctx context.Context, charge string, p PageParams) (*List[RefundOfCharge], error) {
	q := p.query()
	q.Set("charge", charge)
	return list[RefundOfCharge](ctx, cl, "/v1/refunds", q)
}

func (p *PageParams) query() url.Values {
	q := url.Values{}
	for name, id := range map[string]string{"starting_after": p.After, "ending_before": p.Before} {
		if id != "" {
			q.Set(name, id)
		}
	}
	if p.Limit != 0 {
		q.Set("limit", strconv.Itoa(p.Limit))
	}
	return q
}

func list[T any](ctx context.Context, cl *Client, path string, q url.Values) (*List[T], error) {
	return do[List[T], *List[T]](ctx, cl, &call{method: http.MethodGet, path: path, query: q}, nil)
}
