package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/caarlos0/env/v11"
)

// Role is what the process is started for; it decides which variables are required.
type Role int

// The roles. They combine with |.
const (
	RoleManager Role = 1 << iota // serves the API
	RoleWorker                   // runs jobs
	RoleAdmin                    // works on the control database and its tenants
	RoleKeys                     // derives keys, and needs nothing else
)

// Problem is one fault of the environment.
type Problem struct {
	Variable string
	Message  string // never holds the value
}

// Problems is every fault found, in the order the variables are documented in.
type Problems []Problem //nolint:errname // it is what the user reads: the list of problems

// Error lists all faults, one a line.
func (p Problems) Error() string {
	var b strings.Builder
	b.WriteString("the configuration is not valid:")
	for _, one := range p {
		fmt.Fprintf(&b, "\n  %s: %s", one.Variable, one.Message)
	}
	return b.String()
}

// Load parses environ (as os.Environ gives it) and validates the whole for the role, by its own rules and the given
// ones. The error is Problems. A variable that is set but empty counts as absent.
func Load(environ []string, role Role, rules ...Rule) (*Config, error) {
	cfg, problems := parse(environ)
	problems = append(problems, cfg.check(role, problems, rules)...)
	if len(problems) == 0 {
		return cfg, nil
	}
	problems.sort(cfg.Variables())
	return nil, problems
}

// sort puts the problems in the order of the variables; those that are no variables come last.
func (p Problems) sort(known []Variable) {
	order := map[string]int{}
	for i, v := range known {
		order[v.Name] = i - len(known)
	}
	slices.SortStableFunc(p, func(a, b Problem) int { return order[a.Variable] - order[b.Variable] })
}

func parse(environ []string) (*Config, Problems) {
	vars := env.ToMap(environ)
	cfg := &Config{}
	var problems Problems
	cfg.Datasources, problems = findDatasources(vars)
	problems = append(problems, readSecretFiles(vars, cfg.Variables())...)
	maps.DeleteFunc(vars, func(_, value string) bool { return value == "" })
	for _, section := range cfg.sections() {
		err := env.ParseWithOptions(section.Addr().Interface(), env.Options{Environment: vars})
		problems = append(problems, parseProblems(section.Type(), "", err)...)
	}
	for i := range cfg.Datasources {
		problems = append(problems, parseDatasource(&cfg.Datasources[i], vars)...)
	}
	if cfg.Telemetry.Enabled {
		problems = append(problems, checkOpenTelemetry(vars)...)
	}
	return cfg, problems
}

// parseProblems takes apart what the library says of a struct whose variables begin with prefix.
func parseProblems(section reflect.Type, prefix string, err error) Problems {
	all, _ := errors.AsType[env.AggregateError](err)
	problems := make(Problems, 0, len(all.Errors))
	for _, one := range all.Errors {
		problems = append(problems, parseProblem(section, prefix, one))
	}
	return problems
}

// parseProblem names the variable instead of the struct field, and leaves out the value the library would quote.
func parseProblem(section reflect.Type, prefix string, err error) Problem {
	var pe env.ParseError
	if !errors.As(err, &pe) {
		return Problem{section.Name(), "can't be read"}
	}
	field, _ := section.FieldByName(pe.Name)
	var own formatError
	message := "must be a valid " + field.Type.Kind().String()
	switch {
	case errors.As(pe.Err, &own):
		message = own.Error()
	case field.Type.String() == "time.Duration":
		message = "must be a duration such as 30s or 5m"
	case field.Type.Kind() == reflect.Bool:
		message = "must be true or false"
	case field.Type.Kind() == reflect.Int, field.Type.Kind() == reflect.Int64:
		message = "must be a whole number"
	case field.Type.Kind() == reflect.Float64:
		message = "must be a number"
	}
	return Problem{prefix + field.Tag.Get("env"), message}
}

// readSecretFiles puts the content of the file that NAME_FILE names into NAME, for every secret NAME.
func readSecretFiles(vars map[string]string, known []Variable) Problems {
	var problems Problems
	for _, v := range known {
		path := vars[v.Name+"_FILE"]
		if !v.Secret || path == "" {
			continue
		}
		if vars[v.Name] != "" {
			problems = append(problems, Problem{v.Name, "is set twice: give " + v.Name + " or " + v.Name + "_FILE"})
			continue
		}
		content, err := os.ReadFile(path) // #nosec G304 G703 -- the operator names the file
		if err != nil {
			problems = append(problems, Problem{v.Name, "the file that " + v.Name + "_FILE names can't be read"})
			continue
		}
		value := strings.TrimRight(string(content), "\r\n")
		if value == "" {
			problems = append(problems, Problem{v.Name, "the file that " + v.Name + "_FILE names is empty"})
		}
		vars[v.Name] = value
	}
	return problems
}
