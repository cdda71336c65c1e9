package httpapi

import (
	_ "embed"
	"net/http"
)

//go:embed openapi.json
var openAPIDocument []byte

func openAPI(res *response, _ *http.Request) error {
	res.send(http.StatusOK, mediaJSON, openAPIDocument)
	return nil
}
