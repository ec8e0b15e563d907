package quota

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Key names one quota: the tenant whose contract sets it, and the dimension it counts.
type Key struct {
	Tenant    string
	Dimension string
}

// String returns tenant/dimension, for people. It is not unique (a tenant may contain a
// slash): compare keys, never their strings.
func (k Key) String() string { return k.Tenant + "/" + k.Dimension }

// Longest accepted names, in bytes.
const (
	MaxTenantBytes    = 256
	MaxDimensionBytes = 63
)

// FieldError says which field of an input was refused, and what is allowed there.
type FieldError struct {
	Field   string
	Allowed string
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Allowed }

// Validate refuses a key whose names are empty, too long, not UTF-8 or hold characters
// that could make two keys look or store alike. Its dimension may be a derived one.
func (k Key) Validate() error {
	if err := ValidateTenant(k.Tenant); err != nil {
		return err
	}
	dimension, _, _ := Derived(k.Dimension)
	return ValidateDimension(dimension)
}

// ValidateTenant accepts 1 to MaxTenantBytes bytes of UTF-8 without control characters.
func ValidateTenant(name string) error {
	if name == "" || len(name) > MaxTenantBytes || !utf8.ValidString(name) || strings.IndexFunc(name, isControl) >= 0 {
		return &FieldError{Field: "tenant", Allowed: fmt.Sprintf("1 to %d bytes of UTF-8 without control characters", MaxTenantBytes)}
	}
	return nil
}

// ValidateDimension accepts the names that a policy may define: a lower-case letter or
// digit, then letters, digits, '_', '-' and '.', at most MaxDimensionBytes in all.
func ValidateDimension(name string) error {
	if !isDimension(name) {
		return &FieldError{
			Field:   "dimension",
			Allowed: fmt.Sprintf("1 to %d characters of a-z, 0-9, '_', '-' and '.', beginning with a letter or digit", MaxDimensionBytes),
		}
	}
	return nil
}

func isDimension(name string) bool {
	if name == "" || len(name) > MaxDimensionBytes {
		return false
	}
	for i, r := range name {
		alnum := (r >= 'a' && r <= 'z') || (r >= '0' && r <= '9')
		if !alnum && (i == 0 || (r != '_' && r != '-' && r != '.')) {
			return false
		}
	}
	return true
}

func isControl(r rune) bool { return r < 0x20 || (r >= 0x7f && r < 0xa0) }
