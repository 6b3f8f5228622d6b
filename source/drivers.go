package source

// Drivers holds the driver of each kind that this process can read.
type Drivers map[Kind]Driver

// Valid reports whether the API knows the kind, with a driver or without.
func (k Kind) Valid() bool {
	switch k {
	case PostgreSQL, MySQL, Oracle, SQLServer, MongoDB:
		return true
	}
	return false
}
