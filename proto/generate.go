// Package proto holds the wire formats of quotalease: the lease protocol, the decisions and
// the operators' service. `go generate ./proto` lints them and regenerates the Go code.
//
//   - The committed code is what the .proto files generate. (TestGeneratedCodeIsCurrent)
package proto

//go:generate go tool -modfile=tools/go.mod buf format -w
//go:generate go tool -modfile=tools/go.mod buf lint
//go:generate go tool -modfile=tools/go.mod buf generate
