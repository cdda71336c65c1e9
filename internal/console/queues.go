package console

import (
	"net/http"
)

// Queues ...
type Queues interface{}

func (s *console) queuesPage(r *http.Request, p *page) error      { return nil }
func (s *console) confirmPage(r *http.Request, p *page) error     { return nil }
func (s *console) requeue(w http.ResponseWriter, r *http.Request) {}
