package auth

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/fetcherhq/fetcher/problem"
)

const (
	environmentA = "01a22ed4-8c31-7405-a762-b6ee25fa0b35"
	environmentB = "01a22ef4-44e7-7853-a1ec-394dc71d3d9b"
	sourceA      = "01a22ef4-9d0e-7001-b6a5-35a1b2c3d4e5"
)

func TestAuthorizeForByClaims(t *testing.T) {
	t.Parallel()
	good := rsaSigner("k1", 0)
	a, _ := newIdentity(t, good).open(t, func(o *Options) { o.Mode = ModeClaims })
	here := Place{Environment: environmentA, Source: sourceA}
	for name, tt := range map[string]struct {
		grants string
		at     Place
		want   problem.Code
	}{
		"exact":                         {"katara:sources:sync", here, ""},
		"any action":                    {"katara:sources:*", here, ""},
		"any resource":                  {"katara:*", here, ""},
		"another action":                {"katara:sources:read", here, problem.Forbidden},
		"another application":           {"fetcher:*", here, problem.Forbidden},
		"the environment":               {"katara:sources:sync@environment/" + environmentA, here, ""},
		"the environment, upper case":   {"katara:sources:sync@environment/" + strings.ToUpper(environmentA), here, ""},
		"another environment":           {"katara:sources:sync@environment/" + environmentB, here, problem.Forbidden},
		"one of two environments":       {"katara:sources:sync@environment/" + environmentB + " katara:sources:sync@environment/" + environmentA, here, ""},
		"the source":                    {"katara:sources:sync@source/" + sourceA, here, ""},
		"a source by environment id":    {"katara:sources:sync@source/" + environmentA, here, problem.Forbidden},
		"everything in the environment": {"katara:*@environment/" + environmentA, here, ""},
		"no place, no limit":            {"katara:sources:sync", Place{}, ""},
		"no place, a limit":             {"katara:sources:sync@environment/" + environmentA, Place{}, problem.Forbidden},
		"no source, a source's limit":   {"katara:sources:sync@source/" + sourceA, Place{Environment: environmentA}, problem.Forbidden},
		"an empty limit":                {"katara:sources:sync@", here, problem.Forbidden},
		"an empty id":                   {"katara:sources:sync@source/", Place{Environment: environmentA}, problem.Forbidden},
		"an unknown kind":               {"katara:sources:sync@org/" + environmentA, here, problem.Forbidden},
		"two limits":                    {"katara:sources:sync@source/" + sourceA + "@environment/" + environmentA, here, problem.Forbidden},
		"a limit with a tail":           {"katara:sources:sync@source/" + sourceA + "/x", here, problem.Forbidden},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := principal(t, a, good, with(userClaims(), jwt.MapClaims{"scope": tt.grants}))
			err := a.AuthorizeFor(t.Context(), p, Permission{Application: "katara", Resource: "sources", Action: "sync", Place: tt.at})
			if err == nil && tt.want != "" || err != nil && problem.CodeOf(err) != tt.want {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// TestAuthorizeForAsks pins that one authenticator asks for several applications, and keeps their decisions apart.
func TestAuthorizeForAsks(t *testing.T) {
	t.Parallel()
	good := rsaSigner("k1", 0)
	id := newIdentity(t, good)
	a, _ := id.open(t)
	p := principal(t, a, good, userClaims())
	var asked []map[string]any
	id.set(func() {
		id.decide = func(w http.ResponseWriter, _ *http.Request, body []byte) {
			var q map[string]any
			_ = json.Unmarshal(body, &q)
			asked = append(asked, q)
			_, _ = io.WriteString(w, `{"authorized": true}`)
		}
	})
	for _, application := range []string{"katara", "fetcher", "katara"} {
		err := a.AuthorizeFor(t.Context(), p, Permission{
			Application: application, Resource: "memory", Action: "write", Place: Place{Environment: environmentA},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	want := []map[string]any{ // the third is answered from the cache
		{"sub": "acme-people/alice", "resource": "memory", "action": "write", "product": "katara"},
		{"sub": "acme-people/alice", "resource": "memory", "action": "write", "product": "fetcher"},
	}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("questions (-want +got):\n%s", diff)
	}
	anonymous := Disabled{TenantID: "default"}
	nobody, err := anonymous.Verify(t.Context(), "whatever")
	if err != nil {
		t.Fatal(err)
	}
	if err := anonymous.AuthorizeFor(t.Context(), nobody, Permission{Application: "katara", Resource: "memory", Action: "read"}); err != nil {
		t.Error(err)
	}
	if err := anonymous.AuthorizeFor(t.Context(), p, Permission{}); problem.CodeOf(err) != problem.Forbidden {
		t.Errorf("a person without authentication: %v", err)
	}
}
