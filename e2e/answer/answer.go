// Package answer is a response of the API, as the merchants of the end-to-end tests see
// it.
package answer

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/homeward-io/homeward/e2e/history"
)

// Answer is a response. Err is set if it is incomplete.
type Answer struct {
	Err     error
	Status  int
	Header  http.Header
	Body    []byte
	Problem struct {
		Error        string `json:"error"`
		Retry        string `json:"retry"`
		RetryAfterMS int64  `json:"retry_after_ms"`
		Code         string `json:"code"`
	}
}

// To sends req and reads the whole response.
func To(req *http.Request, c *http.Client) *Answer {
	req.GetBody = nil // or net/http would itself send again what was cut off
	res, err := c.Do(req)
	if err != nil {
		return &Answer{Err: err}
	}
	defer func() { _ = res.Body.Close() }()
	a := &Answer{Status: res.StatusCode, Header: res.Header}
	if a.Body, a.Err = io.ReadAll(res.Body); a.Err == nil && a.Status != http.StatusCreated && a.Status != http.StatusOK {
		a.Err = json.Unmarshal(a.Body, &a.Problem)
	}
	return a
}

// Remembered is the part of the response that every retry must repeat.
func (a *Answer) Remembered() string {
	return fmt.Sprintf("%d|%s|%s|%s", a.Status, a.Header.Get("Content-Type"), a.Header.Get("Location"), a.Body)
}

// Final reports whether no retry is needed.
func (a *Answer) Final() bool {
	return a.Err == nil && (a.Status == http.StatusCreated || a.Status == http.StatusOK || a.Problem.Retry != "" && a.Problem.Retry != "same_key")
}

func (a *Answer) String() string {
	if a.Err != nil {
		return a.Err.Error()
	}
	return a.Remembered()
}

// Got converts it for the model of a key.
func (a *Answer) Got() history.Got {
	switch {
	case a.Err != nil:
		return history.Got{Kind: history.None}
	case a.Status == http.StatusUnprocessableEntity:
		return history.Got{Kind: history.Mismatch}
	case a.Status == http.StatusConflict:
		return history.Got{Kind: history.InUse}
	case a.Status == http.StatusPaymentRequired && !a.Final():
		return history.Got{Kind: history.Soft}
	case a.Final():
		return history.Got{Kind: history.Final, Reply: a.Remembered()}
	default:
		return history.Got{Kind: history.None}
	}
}

// Became converts the answer to a cancellation of a key.
func (a *Answer) Became() history.Got {
	if a.Err == nil && (a.Final() || a.Status == http.StatusAccepted) {
		return history.Got{Kind: history.Became, Reply: a.Remembered()}
	}
	return history.Got{Kind: history.None}
}
