package claim_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/homeward-io/homeward/claim"
)

func fingerprint(t interface {
	Helper()
	Fatal(...any)
}, in claim.FingerprintInput) claim.Fingerprint {
	t.Helper()
	f, err := in.Fingerprint(claim.CurrentFingerprint)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Sums like these are stored in claims. A build that computes others would
// answer honest retries of live claims with 422: if this test fails, the change
// needs a new version, not new sums.
func TestFingerprintV1Golden(t *testing.T) {
	for _, tc := range []struct {
		name, body string
		in         claim.FingerprintInput
		want       string
	}{
		{
			"charge", typicalCharge,
			claim.FingerprintInput{Method: "POST", Path: "/v1/charges", Tenant: "acme", ContentType: "application/json; charset=UTF-8"},
			"v1:faed6e47787d7fb078a46d4f936ac49a8a847531213cd77c129443b91bc2abbf",
		},
		{
			"numbers, escapes and order", `{"z":[1e2,-0.0,9007199254740993,1e21,1e-7,12.50],"\ud83d\ude00":"\u0000\/","\ufb33":null,"a":{"c":true,"b":false}}`,
			claim.FingerprintInput{Method: "POST", Path: "/v1/transfers", Tenant: "globex", ContentType: "application/json"},
			"v1:4ba89d5b6bd64b0a51802b7192b545e01470d366c67c4b9007166bf7b48711ce",
		},
		{
			"no content type, empty object", `{}`,
			claim.FingerprintInput{Method: "POST", Path: "/v1/charges", Tenant: "acme"},
			"v1:b56bd8201ed3a6aac299d910f9520612f243b3301cf81a1a60c3e645d1d5a888",
		},
		{
			"larger than the stack buffer", `{"description":"` + strings.Repeat("x", 4096) + `"}`,
			claim.FingerprintInput{Method: "POST", Path: "/v1/charges", Tenant: "acme", ContentType: "application/json"},
			"v1:1167f04a87599bde31ecbd0dd6a1550bdda238f838fb7ba5d6df3f1ba6ce0200",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			canonical, err := claim.Canonical([]byte(tc.body), claim.CanonicalOptions{})
			if err != nil {
				t.Fatal(err)
			}
			tc.in.Canonical = canonical
			f, err := tc.in.Fingerprint(claim.FingerprintV1)
			if err != nil || f.String() != tc.want {
				t.Errorf("fingerprint %s, %v; want %s", f, err, tc.want)
			}
		})
	}
}

// naiveFingerprint is version 1 as its documentation describes it.
func naiveFingerprint(in claim.FingerprintInput, mediaType string) [32]byte {
	h := sha256.New()
	for _, part := range []string{"homeward/fingerprint/v1", in.Method, in.Path, in.Tenant, mediaType, string(in.Canonical)} {
		if err := binary.Write(h, binary.BigEndian, uint64(len(part))); err != nil {
			panic(err)
		}
		h.Write([]byte(part))
	}
	return [32]byte(h.Sum(nil))
}

// Short inputs are hashed in one piece and long ones as a stream; both sides of
// the border, and the border itself, must agree with the plain rule.
func TestFingerprintAgreesWithItsDescription(t *testing.T) {
	for size := range 1200 {
		for _, in := range []claim.FingerprintInput{
			{Method: "POST", Path: "/v1/charges", Tenant: "acme", ContentType: "application/json", Canonical: bytes.Repeat([]byte{'1'}, size)},
			{Method: "POST", Path: "/v1/charges", Tenant: strings.Repeat("t", size), ContentType: "application/json", Canonical: []byte("{}")},
		} {
			if got, want := fingerprint(t, in).Sum, naiveFingerprint(in, "application/json"); got != want {
				t.Fatalf("size %d: %x, want %x", size, got, want)
			}
		}
	}
}

func TestEveryPartCounts(t *testing.T) {
	base := claim.FingerprintInput{Method: "POST", Path: "/v1/charges", Tenant: "acme", ContentType: "application/json", Canonical: []byte(`{"amount":1}`)}
	seen := map[claim.Fingerprint]string{fingerprint(t, base): "base"}
	for name, change := range map[string]func(*claim.FingerprintInput){
		"method":       func(in *claim.FingerprintInput) { in.Method = "PUT" },
		"path":         func(in *claim.FingerprintInput) { in.Path = "/v1/transfers" },
		"tenant":       func(in *claim.FingerprintInput) { in.Tenant = "globex" },
		"content type": func(in *claim.FingerprintInput) { in.ContentType = "application/vnd.api+json" },
		"body":         func(in *claim.FingerprintInput) { in.Canonical = []byte(`{"amount":2}`) },
		"no body":      func(in *claim.FingerprintInput) { in.Canonical = nil },
		"shifted border": func(in *claim.FingerprintInput) {
			in.Path, in.Tenant = "/v1/charge", "sacme"
		},
		"swapped parts": func(in *claim.FingerprintInput) { in.Path, in.Tenant = in.Tenant, in.Path },
	} {
		in := base
		change(&in)
		f := fingerprint(t, in)
		if other, ok := seen[f]; ok {
			t.Errorf("%s has the fingerprint of %s", name, other)
		}
		seen[f] = name
	}
}

func TestBordersBetweenPartsCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.StringMatching(`[ab\x00]{0,3}`)
		draw := func(n string) claim.FingerprintInput {
			return claim.FingerprintInput{
				Method: part.Draw(t, n+" method"), Path: part.Draw(t, n+" path"), Tenant: part.Draw(t, n+" tenant"),
				Canonical: []byte(part.Draw(t, n+" body")),
			}
		}
		a, b := draw("a"), draw("b")
		same := a.Method == b.Method && a.Path == b.Path && a.Tenant == b.Tenant && bytes.Equal(a.Canonical, b.Canonical)
		if got := fingerprint(t, a) == fingerprint(t, b); got != same {
			t.Fatalf("equal fingerprints: %t for %+v and %+v", got, a, b)
		}
	})
}

func TestContentTypeCountsWhereItChangesParsing(t *testing.T) {
	for _, tc := range []struct {
		name string
		same []string
	}{
		{"JSON", []string{
			"application/json", "Application/JSON", " application/json ", "application/json;", "application/json; charset=utf-8",
			"application/json;charset=UTF-8", `application/json; charset="utf-8"`, "application/json; CHARSET=utf8",
		}},
		{"another charset", []string{"application/json; charset=latin1", "application/json;Charset=latin1"}},
		{"a parameter", []string{"application/json; profile=x; v=1", "application/json;v=1;charset=utf-8;PROFILE=x"}},
		{"another value", []string{"application/json; profile=y; v=1"}},
		{"values keep their case", []string{"application/json; profile=X; v=1"}},
		{"absent", []string{""}},
		{"not a media type", []string{"application/json; =", " application/json; = "}},
		{"not a media type either", []string{"json json"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := claim.FingerprintInput{Method: "POST", Path: "/v1/charges", Tenant: "acme"}
			in.ContentType = tc.same[0]
			want := fingerprint(t, in)
			for _, ct := range tc.same[1:] {
				if in.ContentType = ct; fingerprint(t, in) != want {
					t.Errorf("%q and %q differ", ct, tc.same[0])
				}
			}
			in.ContentType = "application/json"
			if tc.name != "JSON" && fingerprint(t, in) == want {
				t.Errorf("%q is taken for plain JSON", tc.same[0])
			}
		})
	}
}

func TestUnknownFingerprintVersion(t *testing.T) {
	for _, v := range []claim.FingerprintVersion{0, claim.CurrentFingerprint + 1, 255} {
		f, err := claim.FingerprintInput{}.Fingerprint(v)
		if f != (claim.Fingerprint{}) || !errors.Is(err, claim.ErrFingerprintVersion) {
			t.Errorf("version %d: %v, %v", v, f, err)
		}
	}
}
