// Package agent decides takes from leased units, without a message per decision.
package agent
