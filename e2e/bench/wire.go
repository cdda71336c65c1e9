package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// The request that every case sends, but for its key. The body is what a shop
// sends: some 200 bytes.
const (
	bodyAmount   = 1250
	bodyCurrency = "usd"
	bodySource   = "pm_card_visa"
	requestBody  = `{"amount":1250,"currency":"usd","payment_method":"pm_card_visa","description":"Two rocket engines","order_id":"order-20260101-000017","metadata":{"cart":"c0ffee","channel":"web","customer":"cus_18"}}`

	replayedHeader = "Idempotent-Replayed"
)

// replyTime bounds one exchange: above the slowest healthy one, a commit behind
// a stalled disk included.
const replyTime = 30 * time.Second

// wire is one kept-alive HTTP/1.1 connection, stripped to what the generator
// needs, as on two cores every cycle it spends is taken from what it measures.
// Not safe for concurrent use.
type wire struct {
	conn    net.Conn
	r       *bufio.Reader
	request []byte
	key     []byte // the part of request that holds the key
	body    []byte // of the last reply; valid until the next
	region  int    // that it leads to, by its index
}

// keyLength is that of a UUID as text.
const keyLength = 36

func dial(addr string) (*wire, error) {
	conn, err := net.DialTimeout("tcp", addr, replyTime)
	if err != nil {
		return nil, err
	}
	head := "POST /v1/charges HTTP/1.1\r\nHost: " + addr +
		"\r\nAuthorization: Bearer " + apiKey +
		"\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(requestBody)) +
		"\r\nUser-Agent: homeward-bench\r\nIdempotency-Key: "
	w := &wire{conn: conn, r: bufio.NewReader(conn)}
	w.request = append(append([]byte(head), make([]byte, keyLength)...), "\r\n\r\n"+requestBody...)
	w.key = w.request[len(head) : len(head)+keyLength]
	return w, nil
}

// post sends one charge under key and reads the whole reply.
func (w *wire) post(key string) (status int, replayed bool, err error) {
	if len(key) != keyLength {
		return 0, false, fmt.Errorf("key of %d bytes", len(key))
	}
	copy(w.key, key)
	if err := w.conn.SetDeadline(time.Now().Add(replyTime)); err != nil {
		return 0, false, err
	}
	if _, err := w.conn.Write(w.request); err != nil {
		return 0, false, err
	}
	return w.read()
}

var (
	lengthField   = []byte("Content-Length: ")
	replayedField = []byte(replayedHeader + ": true")
)

func (w *wire) read() (status int, replayed bool, err error) {
	line, err := w.line()
	if err != nil {
		return 0, false, err
	}
	if len(line) < len("HTTP/1.1 200") || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return 0, false, fmt.Errorf("status line %q", line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, false, fmt.Errorf("status line %q", line)
	}
	length := -1
	for {
		if line, err = w.line(); err != nil {
			return 0, false, err
		}
		switch {
		case len(line) == 0:
			if length < 0 {
				return 0, false, errors.New("a reply without Content-Length")
			}
			w.body = append(w.body[:0], make([]byte, length)...)
			_, err = io.ReadFull(w.r, w.body)
			return status, replayed, err
		case bytes.HasPrefix(line, lengthField):
			if length, err = strconv.Atoi(string(line[len(lengthField):])); err != nil {
				return 0, false, err
			}
		case bytes.Equal(line, replayedField):
			replayed = true
		}
	}
}

// line returns the next line without its end, valid until the next read.
func (w *wire) line() ([]byte, error) {
	line, err := w.r.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(line[:len(line)-1], []byte("\r")), nil
}

func (w *wire) close() { _ = w.conn.Close() }
