-- +goose NO TRANSACTION
-- +goose Up

-- Accounts of endless windows, for the housekeeping to walk over. Neither column ever changes, so
-- that no decision writes to it.
CREATE INDEX CONCURRENTLY IF NOT EXISTS account_endless ON account (id) WHERE window_end = 'infinity';
