package httpapi

import (
	_ "embed"
	"net/http"
)

//go:embed openapi.json
var openAPIDocument []byte

// OpenAPI returns the document that GET /v1/openapi.json serves. Do not modify it.
func OpenAPI() []byte { return openAPIDocument }

func openAPI(res *response, _ *http.Request) error {
	res.send(http.StatusOK, mediaJSON, openAPIDocument)
	return nil
}
