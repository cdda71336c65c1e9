//go:build gcp && azure

package node

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCloudDriversAreReached by URL: what is put goes to the service that the URL names, in
// its own protocol. S3 has whole tests, see buckettest.
func TestCloudDriversAreReached(t *testing.T) {
	var mu sync.Mutex
	bodies := map[string]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		bodies[r.URL.Path] += string(body)
		if r.Method == http.MethodPost { // Cloud Storage answers with the object
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"kind":"storage#object","name":"x","bucket":"bodies","generation":"1","size":"4"}`)
			return
		}
		w.WriteHeader(http.StatusCreated)
	}))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	t.Setenv("STORAGE_EMULATOR_HOST", host)
	t.Setenv("AZURE_STORAGE_ACCOUNT", "devstoreaccount1")
	t.Setenv("AZURE_STORAGE_KEY", "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==")
	for url, path := range map[string]string{
		"gs://bodies?anonymous=true":                                 "/upload/storage/v1/b/bodies/o",
		"azblob://bodies?localemu=true&protocol=http&domain=" + host: "/devstoreaccount1/bodies/",
	} {
		b, err := OpenBlobs(t.Context(), url)
		require.NoError(t, err, url)
		ref, err := b.Put(t.Context(), []byte("body"))
		require.NoError(t, err, url)
		require.NoError(t, b.Close())
		mu.Lock()
		found := ""
		for p, said := range bodies {
			if strings.Contains(p, path) && strings.Contains(p+said, ref) && strings.Contains(said, "body") {
				found = p
			}
		}
		mu.Unlock()
		require.NotEmpty(t, found, "%s: %v", url, bodies)
	}
}
