// The program that testkit builds of this, as a MongoDB-protocol server for tests. FerretDB's own go.mod pins the rest.
module github.com/fetcherhq/fetcher/testkit/ferretdb

go 1.26.0

require github.com/FerretDB/FerretDB v1.24.0 // indirect
