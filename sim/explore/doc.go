// Package explore visits every state of a small world.
package explore
