package e2e

import "testing"

// testKataraGuide runs the commands of docs/documents.md against the service and looks whether they were for every
// operation on web documents.
func testKataraGuide(t *testing.T, s *kataraSuite) {
	ids := make([]string, 0, len(kataraOperations()))
	for _, op := range kataraOperations() {
		ids = append(ids, op.id)
	}
	runGuide(t, s.apiSuite, "documents.md", s.freshToken(t, "globex"), ids)
}
