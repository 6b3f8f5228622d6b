package config

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/caarlos0/env/v11"
)

const (
	datasourcePrefix = "DATASOURCE_"
	// namePlaceholder stands for NAME in the documentation.
	namePlaceholder = "{NAME}"
	maxPort         = 65535
)

// Datasource is the definition of one database of the platform itself, by DATASOURCE_{NAME}_ variables.
type Datasource struct {
	Name string // as in the variables

	ConfigName string  `env:"CONFIG_NAME" desc:"Internal datasource NAME (any): the name tenants know it by, which none of them can take."`
	Type       string  `env:"TYPE" desc:"Its kind: POSTGRESQL, MYSQL, ORACLE, SQL_SERVER or MONGODB."`
	Host       string  `env:"HOST" desc:"Its host, dialled as it stands, whatever ALLOW_PRIVATE_HOSTS says."`
	Port       int     `env:"PORT" desc:"Its port."`
	Database   string  `env:"DATABASE" desc:"Its database."`
	User       string  `env:"USER" desc:"The user to log in as; should only be able to read."`
	Password   Secret  `env:"PASSWORD" desc:"The user's password."`
	SSLMode    string  `env:"SSLMODE" desc:"One of the kind's SSL modes; default: the kind's own."`
	SSLCA      Secret  `env:"SSL_CA" desc:"PEM of the authorities to trust."`
	SSLCert    Secret  `env:"SSL_CERT" desc:"PEM of the client certificate; comes with SSL_KEY."`
	SSLKey     Secret  `env:"SSL_KEY" desc:"PEM of the client certificate's key."`
	Options    Options `env:"OPTIONS" desc:"k=v&k=v: schema, and what a connection's metadata would hold: serviceName, authSource, replicaSet, directConnection."`
	Tenants    List    `env:"TENANTS" desc:"Tenants that may read it in multi-tenant mode, comma separated; * for all; default none."`
}

// Variable is the name of the variable that ends in suffix.
func (d *Datasource) Variable(suffix string) string { return datasourcePrefix + d.Name + "_" + suffix }

// Rule is a rule of another package that a configuration must meet besides those of this one. It is called with values
// that parsed as well as they could, and must not quote them in its problems.
type Rule func(*Config) Problems

// datasourceVariable takes the name of a variable apart. No suffix is the end of another one behind an underscore, so
// that there is one way to do it.
func datasourceVariable() *regexp.Regexp {
	var suffixes []string
	for _, v := range new(Datasource).variables() {
		suffix := regexp.QuoteMeta(strings.TrimPrefix(v.Name, new(Datasource).Variable("")))
		suffixes = append(suffixes, suffix)
		if v.Secret {
			suffixes = append(suffixes, suffix+"_FILE")
		}
	}
	return regexp.MustCompile(`^` + datasourcePrefix + `(.+)_(?:` + strings.Join(suffixes, "|") + `)$`)
}

// findDatasources returns the names that variables define, in order, and a problem for every variable that begins like
// one of a definition but isn't: a misspelt SSLMODE must not go unnoticed.
func findDatasources(vars map[string]string) ([]Datasource, Problems) {
	form := datasourceVariable()
	names := map[string]bool{}
	var others []string
	for variable, value := range vars {
		switch match := form.FindStringSubmatch(variable); {
		case value == "":
		case match != nil:
			names[match[1]] = true
		default:
			others = append(others, variable)
		}
	}
	found := make([]Datasource, 0, len(names))
	for _, name := range slices.Sorted(maps.Keys(names)) {
		found = append(found, Datasource{Name: name})
	}
	slices.Sort(others)
	var problems Problems
	for _, variable := range others {
		begins := func(d Datasource) bool { return strings.HasPrefix(variable, d.Variable("")) }
		if slices.ContainsFunc(found, begins) {
			problems = append(problems, Problem{variable, "is not a variable of a datasource"})
		}
	}
	return found, problems
}

// parseDatasource fills d from its variables.
func parseDatasource(d *Datasource, vars map[string]string) Problems {
	err := env.ParseWithOptions(d, env.Options{Environment: vars, Prefix: d.Variable("")})
	return parseProblems(reflect.TypeFor[Datasource](), d.Variable(""), err)
}

// variables lists the variables of the definition with their values.
func (d *Datasource) variables() []Variable {
	return variablesOf(reflect.ValueOf(d).Elem(), d.Variable(""))
}

// checkDatasources judges the definitions as far as that needs no knowledge of databases.
func (c *Config) checkDatasources(k *checker) {
	owner := map[string]bool{}
	for i := range c.Datasources {
		d := &c.Datasources[i]
		for suffix, there := range map[string]bool{
			"CONFIG_NAME": d.ConfigName != "", "TYPE": d.Type != "", "HOST": d.Host != "", "PORT": d.Port != 0,
			"DATABASE": d.Database != "", "USER": d.User != "", "PASSWORD": d.Password.IsSet(),
		} {
			k.require(there, d.Variable(suffix), "is required")
		}
		k.require(d.Port >= 0 && d.Port <= maxPort, d.Variable("PORT"), fmt.Sprintf("must be 1 to %d", maxPort))
		k.require(!owner[d.ConfigName], d.Variable("CONFIG_NAME"), "is the name of another datasource too")
		owner[d.ConfigName] = d.ConfigName != ""
	}
}
