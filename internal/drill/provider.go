package drill

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"time"
)

// provider is the simulator, by HTTP.
type provider struct {
	base string
	http *http.Client
	// kept are the faults that were set before the drill's own, in the simulator's
	// format.
	kept map[string]any
}

// providerTime bounds one request to the simulator, its whole book included.
const providerTime = time.Minute

// effect is one movement of money in the simulator's book.
type effect struct {
	Reference string `json:"reference"`
	Amount    int64  `json:"amount"`
}

// effects reads the movements that filter accepts.
func (p *provider) effects(ctx context.Context, wanted func(effect) bool) ([]effect, error) {
	var found []effect
	err := p.ask(ctx, http.MethodGet, "/_sim/effects", nil, func(body io.Reader) error {
		lines := bufio.NewScanner(body)
		for lines.Scan() {
			var e effect
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				return err
			}
			if wanted(e) {
				found = append(found, e)
			}
		}
		return lines.Err()
	})
	return found, err
}

func (p *provider) ask(ctx context.Context, method, path string, body []byte, read func(io.Reader) error) error {
	ctx, cancel := context.WithTimeout(ctx, providerTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, p.base+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	res, err := p.http.Do(req)
	if err != nil {
		return fmt.Errorf("the provider simulator at %s: %w", p.base, err)
	}
	if res.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d; is it homeward's simulator?", res.StatusCode)
	} else {
		err = read(res.Body)
	}
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return fmt.Errorf("the provider simulator at %s: %s %s: %w", p.base, method, path, err)
	}
	return nil
}

// outage: seven of ten calls have no effect, three move money, and none is answered, so
// that every outcome is unknown. The latency does not change.
func (p *provider) outage() fault {
	put := func(ctx context.Context, faults map[string]any) error {
		text, err := json.Marshal(faults)
		if err != nil {
			return err
		}
		return p.ask(ctx, http.MethodPut, "/_sim/faults", text, func(io.Reader) error { return nil })
	}
	return fault{
		begin: func(ctx context.Context) error {
			read := func(body io.Reader) error { return json.NewDecoder(body).Decode(&p.kept) }
			if err := p.ask(ctx, http.MethodGet, "/_sim/faults", nil, read); err != nil {
				return err
			}
			bad := map[string]any{}
			maps.Copy(bad, p.kept)
			bad["error_before"], bad["drop_reply"], bad["error_after"] = 0.7, 0.5, 1
			return put(ctx, bad)
		},
		end: func(ctx context.Context) error {
			if p.kept == nil {
				return nil // nothing was changed
			}
			return put(ctx, p.kept)
		},
	}
}
