package connections

import "github.com/fetcherhq/fetcher/problem"

// maxFaults bounds an answer that would list more.
const maxFaults = 50

// fault is one violated format with the code it has when it stands alone.
type fault struct {
	code     problem.Code
	location string
	message  string
}

type faults []fault

func (f *faults) add(code problem.Code, location, message string) {
	if len(*f) < maxFaults {
		*f = append(*f, fault{code: code, location: location, message: message})
	}
}

func (f *faults) malformed(location, message string) { f.add(problem.Malformed, location, message) }

// err returns nil when there is no fault, else all of them under one code.
func (f *faults) err() error {
	if len(*f) == 0 {
		return nil
	}
	code := f.code()
	fields := make([]problem.Field, 0, len(*f))
	for _, x := range *f {
		fields = append(fields, problem.Field{Location: x.location, Message: x.message})
	}
	return problem.New(code, detail(code)).With(fields...)
}

// code is the one that all faults share, the first of those for metadata when there are several kinds of them, and
// FET-0001 for any other mixture.
func (f *faults) code() problem.Code {
	code := (*f)[0].code
	for _, x := range (*f)[1:] {
		switch {
		case x.code == code:
		case isMetadata(x.code) && isMetadata(code):
			code = min(code, x.code)
		default:
			return problem.Malformed
		}
	}
	return code
}

func isMetadata(c problem.Code) bool {
	return c == problem.MetadataTooDeep || c == problem.MetadataValueTooLong || c == problem.MetadataKeyTooLong
}

func detail(code problem.Code) string {
	switch code {
	case problem.SSLModeInvalid:
		return "the SSL mode is not valid for this connection"
	case problem.MetadataTooDeep:
		return "the metadata are nested too deep"
	case problem.MetadataValueTooLong:
		return "a string in the metadata is too long"
	case problem.MetadataKeyTooLong:
		return "a key in the metadata is too long"
	default:
		return "members of the body are not valid"
	}
}
