-- +goose Up

-- The overrides that were made by command, beside the text of the version's files: a list of
-- what was given, each with who gave it and when.
ALTER TABLE policy_version ADD COLUMN overrides jsonb NOT NULL DEFAULT '[]'
    CHECK (jsonb_typeof(overrides) = 'array');
