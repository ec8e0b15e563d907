-- +goose Up

-- What a transaction writes comes as one array of rows a statement: to bind forty arrays, and to
-- step through all of them row by row, cost more than to write one row. Nothing is stored in these
-- types. One is never changed, since replicas of the version before go on to use it: rows of
-- another shape get another name.

-- A new record of lease_grant.
CREATE TYPE grant_row_1 AS (
    id                uuid,
    account_id        bigint,
    agent             uuid,
    region            text,
    kind              smallint,
    state             smallint,
    class             smallint,
    asked             bigint,
    need              bigint,
    amount            bigint,
    reason            text,
    generation        bigint,
    policy_version    bigint,
    issued_at         timestamptz,
    ttl               interval,
    expires_at        timestamptz,
    closes_at         timestamptz,
    revoked_at        timestamptz,
    updated_at        timestamptz,
    taken             bigint,
    refunded          bigint,
    back              bigint,
    moved             bigint,
    starts_at         timestamptz,
    ends_at           timestamptz,
    delay             interval,
    drip              interval,
    seq               bigint,
    in_use            bigint,
    granted           bigint,
    consumed_reported bigint,
    spent             bigint,
    unleased          bigint,
    outstanding       bigint,
    held              bigint,
    uncertain         bigint,
    expired           bigint,
    revoked           bigint,
    returned          bigint,
    emergency         bigint,
    extended          bigint
);

-- What may change of one.
CREATE TYPE grant_change_1 AS (
    id                uuid,
    state             smallint,
    revoked_at        timestamptz,
    updated_at        timestamptz,
    taken             bigint,
    refunded          bigint,
    back              bigint,
    moved             bigint,
    policy_version    bigint,
    ttl               interval,
    expires_at        timestamptz,
    closes_at         timestamptz,
    ends_at           timestamptz,
    seq               bigint,
    in_use            bigint,
    granted           bigint,
    consumed_reported bigint,
    spent             bigint,
    unleased          bigint,
    outstanding       bigint,
    held              bigint,
    uncertain         bigint,
    expired           bigint,
    revoked           bigint,
    returned          bigint,
    emergency         bigint,
    extended          bigint
);

-- What may change of an account.
CREATE TYPE account_change_1 AS (
    id                bigint,
    policy_version    bigint,
    kind              smallint,
    class             smallint,
    unit_limit        bigint,
    budget            bigint,
    ttl               interval,
    grace             interval,
    generation        bigint,
    committed         bigint,
    largest_limit     bigint,
    overshoot         bigint,
    clock             timestamptz,
    waiting           boolean,
    rate_units        bigint,
    rate_per          interval,
    max_hold          interval,
    pot               bigint,
    final_after       interval,
    bucket_spent      bigint,
    bucket_part       bigint,
    bucket_at         timestamptz,
    credit            bigint,
    released          bigint,
    opening_limit     bigint,
    opened_at         timestamptz,
    closed_at         timestamptz,
    final_at          timestamptz,
    revision          bigint,
    final_by          timestamptz,
    wanted_at         timestamptz,
    granted           bigint,
    consumed_reported bigint,
    spent             bigint,
    unleased          bigint,
    outstanding       bigint,
    held              bigint,
    uncertain         bigint,
    expired           bigint,
    revoked           bigint,
    returned          bigint,
    emergency         bigint,
    extended          bigint
);

-- An incarnation, new or changed.
CREATE TYPE incarnation_row_1 AS (
    id             uuid,
    name           text,
    region         text,
    started_at     timestamptz,
    last_seen      timestamptz,
    policy_version bigint,
    echoed         uuid,
    tokens         uuid[]
);

-- A participant, new or changed.
CREATE TYPE participant_row_1 AS (
    tenant    text,
    dimension text,
    agent     uuid,
    last_seen timestamptz,
    region    text,
    demand    bigint
);
