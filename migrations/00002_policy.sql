-- +goose Up

-- Every version of the policy, for ever.
CREATE TABLE policy_version (
    version bigint      PRIMARY KEY CHECK (version > 0),
    at      timestamptz NOT NULL,
    sum     text        NOT NULL,
    source  text        NOT NULL,
    who     text        NOT NULL,
    why     text        NOT NULL,
    text    text        NOT NULL
);

-- The version in force, 0 before the first. Every grant reads this row; appending locks it.
CREATE TABLE policy_head (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    version  bigint  NOT NULL
) WITH (fillfactor = 50);

INSERT INTO policy_head (version) VALUES (0);
