package handlers

import (
	"regexp"

	"github.com/google/uuid"

	"github.com/fetcherhq/fetcher/problem"
)

var uuidForm = regexp.MustCompile(`^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$`)

// idInput is the {id} of a path.
type idInput struct {
	ID string `path:"id" format:"uuid" doc:"The id, a UUID in 8-4-4-4-12 form."`
}

// parse returns the id; FET-0404 for anything but the 8-4-4-4-12 form, any case.
func (in idInput) parse() (uuid.UUID, error) {
	if uuidForm.MatchString(in.ID) {
		if id, err := uuid.Parse(in.ID); err == nil {
			return id, nil
		}
	}
	return uuid.UUID{}, problem.New(problem.PathInvalid, "the id is not a UUID").
		With(problem.Field{Location: "path.id", Message: "must be a UUID in 8-4-4-4-12 form"})
}
