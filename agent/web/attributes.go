package web

import (
	"encoding/json"

	"github.com/quotalease/quotalease/agent/local"
	"github.com/quotalease/quotalease/ledger/quota"
)

// caller reads for whom a request is made. Local limits may count by it.
func caller(c *local.Caller) field {
	var bytes *int64
	of := callerFields(c, &bytes)
	return field{"caller", "{route, actor, api_key, address, bytes}", func() schema { return objectOf(of) }, func(name string, value json.RawMessage) error {
		err := readObject(value, name, name+".", of)
		if bytes != nil {
			c.Bytes = *bytes
		}
		return err
	}}
}

func callerFields(c *local.Caller, bytes **int64) []field {
	return []field{
		text("route", &c.Route), text("actor", &c.Actor), text("api_key", &c.APIKey), text("address", &c.Address),
		whole("bytes", bytes, 0, quota.MaxCost),
	}
}
