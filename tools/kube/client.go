package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Object is an object of the API as it is in JSON.
type Object = map[string]any

// Client speaks to the API server in JSON.
type Client struct {
	base string
	http *http.Client

	mu    sync.Mutex
	kinds map[string]kind // by apiVersion and kind; read when first needed
}

// kind is what the server tells about a kind of objects.
type kind struct {
	path       string // of its group and version
	plural     string
	namespaced bool
	listable   bool
}

func (k kind) in(namespace string) string {
	if !k.namespaced {
		return k.path + "/" + k.plural
	}
	return k.path + "/namespaces/" + namespace + "/" + k.plural
}

// do returns the decoded answer, or an error with the server's message. It asks again, until patience is over, when the
// server says that it is too early.
func (c *Client) do(ctx context.Context, method, path, mediaType string, body []byte) (Object, error) {
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		object, status, err := c.once(ctx, method, path, mediaType, body)
		if status != http.StatusTooManyRequests || time.Now().After(deadline) {
			return object, err
		}
	}
}

func (c *Client) once(ctx context.Context, method, path, mediaType string, body []byte) (Object, int, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	request.Header.Set("Content-Type", mediaType)
	answer, err := c.http.Do(request)
	if err != nil {
		return nil, 0, err
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, 0, err
	}
	var object Object
	if err := json.Unmarshal(content, &object); err != nil {
		return nil, answer.StatusCode, fmt.Errorf("%s %s: %s: %s", method, path, answer.Status, content)
	}
	if answer.StatusCode >= http.StatusMultipleChoices {
		return nil, answer.StatusCode, fmt.Errorf("%s %s: %s: %v", method, path, answer.Status, object["message"])
	}
	if warnings := answer.Header.Values("Warning"); len(warnings) > 0 && method != http.MethodGet {
		return object, answer.StatusCode, fmt.Errorf("%s %s: the server warns: %s", method, path, strings.Join(warnings, "; "))
	}
	return object, answer.StatusCode, nil
}

// Get returns the object at path.
func (c *Client) Get(t *testing.T, path string) Object {
	t.Helper()
	object, err := c.do(t.Context(), http.MethodGet, path, "application/json", nil)
	if err != nil {
		t.Fatal(err)
	}
	return object
}

// List returns the objects of the collection at path.
func (c *Client) List(t *testing.T, path string) []Object {
	t.Helper()
	items, _ := c.Get(t, path)["items"].([]any)
	objects := make([]Object, len(items))
	for i, item := range items {
		objects[i], _ = item.(Object)
	}
	return objects
}

// Apply makes the object, or makes it equal to this one.
func (c *Client) Apply(t *testing.T, object Object) {
	t.Helper()
	if err := c.apply(t, object, "", false); err != nil {
		t.Fatal(err)
	}
}

// Delete removes the object at path.
func (c *Client) Delete(t *testing.T, path string) {
	t.Helper()
	if _, err := c.do(t.Context(), http.MethodDelete, path, "application/json", nil); err != nil {
		t.Fatal(err)
	}
}

// Check asks the server whether it would take the object in that namespace, by every check it makes and without
// storing it. Members that the server does not know and its warnings are errors.
func (c *Client) Check(t *testing.T, object Object, namespace string) error {
	t.Helper()
	return c.apply(t, object, namespace, true)
}

func (c *Client) apply(t *testing.T, object Object, namespace string, dry bool) error {
	t.Helper()
	k, err := c.kindOf(t, object)
	if err != nil {
		return err
	}
	if own, ok := dig(object, "metadata", "namespace").(string); ok {
		namespace = own
	}
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	query := url.Values{"fieldManager": {"test"}, "fieldValidation": {"Strict"}, "force": {"true"}}
	if dry {
		query.Set("dryRun", "All")
	}
	path := k.in(namespace) + "/" + url.PathEscape(nameOf(object)) + "?" + query.Encode()
	_, err = c.do(t.Context(), http.MethodPatch, path, "application/apply-patch+yaml", body)
	return err
}

// Forget makes the client ask for the server's kinds again.
func (c *Client) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kinds = nil
}

func (c *Client) kindOf(t *testing.T, object Object) (kind, error) {
	t.Helper()
	key := fmt.Sprint(object["apiVersion"], " ", object["kind"])
	k, ok := c.allKinds(t)[key]
	if !ok {
		return kind{}, fmt.Errorf("the server knows no %s", key)
	}
	return k, nil
}

func (c *Client) allKinds(t *testing.T) map[string]kind {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kinds != nil {
		return c.kinds
	}
	paths := map[string]string{"v1": "/api/v1"}
	groups, _ := c.Get(t, "/apis")["groups"].([]any)
	for _, group := range groups {
		versions, _ := dig(group, "versions").([]any)
		for _, version := range versions {
			name := fmt.Sprint(dig(version, "groupVersion"))
			paths[name] = "/apis/" + name
		}
	}
	c.kinds = map[string]kind{}
	for version, path := range paths {
		resources, _ := c.Get(t, path)["resources"].([]any)
		for _, resource := range resources {
			plural := fmt.Sprint(dig(resource, "name"))
			if strings.Contains(plural, "/") {
				continue
			}
			verbs, _ := dig(resource, "verbs").([]any)
			c.kinds[fmt.Sprint(version, " ", dig(resource, "kind"))] = kind{
				path: path, plural: plural, namespaced: dig(resource, "namespaced") == true, listable: slices.Contains(verbs, any("list")),
			}
		}
	}
	return c.kinds
}

// Everything returns kind/name → what was asked for, as JSON, of all that the namespace holds but events: an object
// without its status and without what the server notes about it.
func (c *Client) Everything(t *testing.T, namespace string) map[string]string {
	t.Helper()
	found := map[string]string{}
	kinds := c.allKinds(t)
	for _, key := range slices.Sorted(maps.Keys(kinds)) {
		k := kinds[key]
		_, name, _ := strings.Cut(key, " ")
		if !k.namespaced || !k.listable || name == "Event" {
			continue
		}
		for _, object := range c.List(t, k.in(namespace)) {
			id := name + "/" + nameOf(object)
			delete(object, "status")
			if metadata, ok := object["metadata"].(Object); ok {
				delete(metadata, "resourceVersion")
				delete(metadata, "managedFields")
			}
			content, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			found[id] = string(content)
		}
	}
	return found
}

// Change is one step of an object's history.
type Change struct {
	Type   string `json:"type"` // ADDED, MODIFIED or DELETED
	Object Object `json:"object"`
}

// Version is the change's place in the order of all changes of the cluster.
func (c Change) Version() int {
	n, _ := strconv.Atoi(fmt.Sprint(dig(c.Object, "metadata", "resourceVersion")))
	return n
}

// Find returns the first change, after the version since, of the collection at path that wanted takes. It waits for it.
func (c *Client) Find(t *testing.T, path, since string, wanted func(Change) bool) Change {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	query := url.Values{"watch": {"1"}, "resourceVersion": {since}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path+"?"+query.Encode(), nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := c.http.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	for decoder := json.NewDecoder(answer.Body); ; {
		var change Change
		if err := decoder.Decode(&change); err != nil {
			t.Fatalf("the change looked for in %s did not come: %v", path, err)
		}
		if change.Type == "ERROR" {
			t.Fatalf("watch %s: %v", path, change.Object["message"])
		}
		if wanted(change) {
			return change
		}
	}
}

// dig returns the member at the end of the path, nil where there is none.
func dig(value any, path ...string) any {
	for _, name := range path {
		object, _ := value.(Object)
		value = object[name]
	}
	return value
}

func nameOf(object Object) string {
	name, _ := dig(object, "metadata", "name").(string)
	return name
}
