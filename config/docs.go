package config

import (
	"fmt"
	"io"
	"reflect"
	"strings"
)

// Variable is what is known of one environment variable.
type Variable struct {
	Name        string
	Section     string
	Default     string
	Description string
	Secret      bool   // may also come from the file that NAME_FILE names
	Value       string // as it is in effect, secrets masked
}

// Variables lists every variable in the order of the documentation, with the values of this configuration. Those of
// datasources are the ones of the definitions there are.
func (c *Config) Variables() []Variable {
	var out []Variable
	for _, section := range c.sections() {
		out = append(out, variablesOf(section, "")...)
	}
	for i := range c.Datasources {
		out = append(out, c.Datasources[i].variables()...)
	}
	return out
}

// variablesOf lists the variables of one struct, whose names begin with prefix.
func variablesOf(section reflect.Value, prefix string) []Variable {
	var out []Variable
	for i := range section.NumField() {
		field := section.Type().Field(i)
		name, ok := field.Tag.Lookup("env")
		if !ok {
			continue
		}
		_, secret := reflect.TypeAssert[Secret](section.Field(i))
		out = append(out, Variable{
			Name:        prefix + name,
			Section:     section.Type().Name(),
			Default:     field.Tag.Get("envDefault"),
			Description: field.Tag.Get("desc"),
			Secret:      secret,
			Value:       format(section.Field(i)),
		})
	}
	return out
}

func (c *Config) sections() []reflect.Value {
	all := reflect.ValueOf(c).Elem()
	var out []reflect.Value
	for _, field := range all.Fields() {
		if field.Kind() == reflect.Struct {
			out = append(out, field)
		}
	}
	return out
}

func format(v reflect.Value) string {
	if list, ok := reflect.TypeAssert[[]string](v); ok {
		return strings.Join(list, ",")
	}
	return fmt.Sprint(v.Interface())
}

// WriteMarkdown writes the table of every variable, with {NAME} for what a datasource is called.
func WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	b.WriteString("| Variable | Default | Meaning |\n|---|---|---|\n")
	for _, v := range (&Config{Datasources: []Datasource{{Name: namePlaceholder}}}).Variables() {
		def := ""
		if v.Default != "" {
			def = "`" + v.Default + "`"
		}
		meaning := v.Description
		if v.Secret {
			meaning += " Secret: may come from `" + v.Name + "_FILE`."
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", v.Name, def, meaning)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("writing the table of variables: %w", err)
	}
	return nil
}
