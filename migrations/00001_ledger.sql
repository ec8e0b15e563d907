-- +goose Up

-- One account is one key (tenant, dimension) in one window. Its row is the lock under which
-- everything about the account happens, so it is narrow, half empty and updated in place:
-- no index holds a column that a decision changes, and every such update stays HOT.
--
-- An endless window starts at -infinity and ends at infinity. A limit that is NULL is none.
CREATE TABLE account (
    id                bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    window_start      timestamptz NOT NULL,
    window_end        timestamptz NOT NULL,

    policy_version    bigint      NOT NULL DEFAULT 0,
    unit_limit        bigint      DEFAULT 0,            -- NULL: unlimited
    budget            bigint      DEFAULT 0,            -- overshoot budget; NULL: unlimited
    largest_limit     bigint      DEFAULT 0,            -- of this window; NULL: unlimited
    ttl               interval    NOT NULL DEFAULT '0',
    grace             interval    NOT NULL DEFAULT '0',

    granted           bigint      NOT NULL DEFAULT 0,   -- ever leased out
    consumed_reported bigint      NOT NULL DEFAULT 0,   -- of those, reported as used
    spent             bigint      NOT NULL DEFAULT 0,   -- used through the exact lane
    unleased          bigint      NOT NULL DEFAULT 0,   -- used without a lease, or beyond one
    outstanding       bigint      NOT NULL DEFAULT 0,   -- unspent part of live leases
    held              bigint      NOT NULL DEFAULT 0,   -- rest of closed leases, still charged
    uncertain         bigint      NOT NULL DEFAULT 0,   -- rest of closed leases, given back
    expired           bigint      NOT NULL DEFAULT 0,   -- left a lease by expiry
    revoked           bigint      NOT NULL DEFAULT 0,   -- left a lease that was revoked
    returned          bigint      NOT NULL DEFAULT 0,   -- given back by the agent

    generation        bigint      NOT NULL DEFAULT 0,
    committed         bigint      NOT NULL DEFAULT 0,
    overshoot         bigint      NOT NULL DEFAULT 0,
    clock             timestamptz,                      -- latest time a decision used; NULL: none yet
    kind              smallint    NOT NULL DEFAULT 0,   -- 1 period; 0: made, but never opened
    class             smallint    NOT NULL DEFAULT 0,   -- 1 exact, 2 hard, 3 bounded, 4 best_effort
    waiting           boolean     NOT NULL DEFAULT false,
    tenant            text COLLATE "C" NOT NULL,
    dimension         text COLLATE "C" NOT NULL,

    -- The collation is the order of bytes, which is the order in which accounts are locked.
    CONSTRAINT account_key UNIQUE (tenant, dimension, window_start, window_end),
    CONSTRAINT account_window CHECK (window_start < window_end),
    CONSTRAINT account_names CHECK (tenant <> '' AND dimension <> ''),
    CONSTRAINT account_terms CHECK (unit_limit >= 0 AND budget >= 0 AND largest_limit >= 0 AND class BETWEEN 0 AND 4),
    CONSTRAINT account_counters CHECK (
        granted >= 0 AND consumed_reported >= 0 AND spent >= 0 AND unleased >= 0 AND outstanding >= 0
        AND held >= 0 AND uncertain >= 0 AND expired >= 0 AND revoked >= 0 AND returned >= 0
        AND generation >= 0 AND overshoot >= 0)
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 200,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 0
);

-- Windows that end: for the end of retention, and to leave those that are over out of lists
-- of what is current. The column never changes, so it costs nothing after the insert. The
-- condition keeps the index away from statements that look for one account: all of today's
-- have the same end.
CREATE INDEX account_window_end ON account (window_end) WHERE window_end < 'infinity';

-- One row is one decision on a lease or a spend, or use without a lease, as reported so far.
-- The counters from granted on are what the row contributes to its account.
--
-- account_id has no foreign key: rows are only inserted under the lock of their account's row,
-- so there is nothing to check, and a check costs as much as the insert. Verify counts rows
-- without an account.
CREATE TABLE lease_grant (
    id                uuid        PRIMARY KEY,          -- UUIDv7, chosen by the agent
    account_id        bigint      NOT NULL,
    agent             uuid        NOT NULL,             -- incarnation

    asked             bigint      NOT NULL,
    need              bigint      NOT NULL,
    amount            bigint      NOT NULL,             -- 0: denied, or use without a lease
    generation        bigint      NOT NULL,             -- of the account, at the decision
    policy_version    bigint      NOT NULL,
    issued_at         timestamptz NOT NULL,
    expires_at        timestamptz,                      -- leases only
    closes_at         timestamptz,                      -- expires_at and the grace: the ledger closes it
    revoked_at        timestamptz,                      -- NULL: not revoked
    updated_at        timestamptz NOT NULL,
    ttl               interval    NOT NULL,

    taken             bigint      NOT NULL,             -- reported, and so on: cumulative
    refunded          bigint      NOT NULL,
    back              bigint      NOT NULL,
    moved             bigint      NOT NULL,             -- from held to uncertain

    granted           bigint      NOT NULL,
    consumed_reported bigint      NOT NULL,
    spent             bigint      NOT NULL,
    unleased          bigint      NOT NULL,
    outstanding       bigint      NOT NULL,
    held              bigint      NOT NULL,
    uncertain         bigint      NOT NULL,
    expired           bigint      NOT NULL,
    revoked           bigint      NOT NULL,
    returned          bigint      NOT NULL,

    kind              smallint    NOT NULL,             -- 1 lease, 2 spend, 3 use without a lease
    state             smallint    NOT NULL,             -- 1 live, 2 closed, 3 final, 4 denied, 5 cancelled
    class             smallint    NOT NULL,             -- of the account, at the decision
    region            text        NOT NULL,
    reason            text        NOT NULL,             -- of a denial

    CONSTRAINT lease_grant_kinds CHECK (kind BETWEEN 1 AND 3 AND state BETWEEN 1 AND 5),
    CONSTRAINT lease_grant_counters CHECK (
        amount >= 0 AND refunded BETWEEN 0 AND taken AND back BETWEEN 0 AND amount AND moved >= 0),
    CONSTRAINT lease_grant_live CHECK (state <> 1 OR (amount > 0 AND closes_at IS NOT NULL))
) WITH (
    fillfactor = 70,                                    -- a lease is reported on a few times
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.02,
    autovacuum_vacuum_cost_delay = 0
);

-- All grants of an account, in the order of their ids: what retention folds, what verify
-- adds up, what people list by key. Ids rise with time, so inserts go to the right edge of
-- each account's range.
CREATE INDEX lease_grant_of_account ON lease_grant (account_id, id);

-- The live leases of an account: of one agent, to know what it holds, and those that are due,
-- to close them before a decision. An account has as many as its agents hold at a time, some
-- thousands at most, so the due ones are found inside the index without an order of their
-- own. Reports on a live lease change none of the three columns, so they stay HOT.
CREATE INDEX lease_grant_live ON lease_grant (account_id, agent, closes_at) WHERE state = 1;

-- The live leases of all accounts, soonest end first: what the sweeper asks for. A live lease
-- always has an amount; the condition keeps the index away from statements about one account.
CREATE INDEX lease_grant_due ON lease_grant (closes_at) WHERE state = 1 AND amount > 0;

-- Grants with held units, oldest first: what may move to uncertain when headroom is short.
-- A row enters once, when its lease closes; while it lives held is 0 and stays 0.
CREATE INDEX lease_grant_held ON lease_grant (account_id, issued_at) WHERE held > 0;

-- No index for an agent's grants of all time: its live ones are in lease_grant_live, and one
-- more entry for each grant would be paid by every decision for the sake of a rare listing.

-- What grants that retention removed contributed to their account.
CREATE TABLE account_folded (
    account_id        bigint PRIMARY KEY REFERENCES account (id),
    granted           bigint NOT NULL,
    consumed_reported bigint NOT NULL,
    spent             bigint NOT NULL,
    unleased          bigint NOT NULL,
    outstanding       bigint NOT NULL,
    held              bigint NOT NULL,
    uncertain         bigint NOT NULL,
    expired           bigint NOT NULL,
    revoked           bigint NOT NULL,
    returned          bigint NOT NULL
) WITH (fillfactor = 70);

-- One start of an agent, and the tokens that tell it from a copy of itself.
CREATE TABLE incarnation (
    id             uuid        PRIMARY KEY,
    name           text        NOT NULL,
    region         text        NOT NULL,
    started_at     timestamptz NOT NULL,
    last_seen      timestamptz NOT NULL,
    policy_version bigint      NOT NULL,
    echoed         uuid,                                -- NULL before the first echo
    tokens         uuid[]      NOT NULL                 -- every one issued in answer to echoed
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 200,
    autovacuum_vacuum_cost_delay = 0
);

-- Which agents took an interest in which key, and when last. last_seen is in no index: it
-- changes with nearly every decision.
CREATE TABLE participant (
    agent     uuid             NOT NULL,
    last_seen timestamptz      NOT NULL,
    tenant    text COLLATE "C" NOT NULL,
    dimension text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, dimension, agent)
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 200,
    autovacuum_vacuum_cost_delay = 0
);

-- The journal. It names accounts in words, because it is read by people and may outlive them.
-- Writers commit one after another (see ledger/postgres), so ids rise in the order in which
-- rows become visible, and a reader that goes on after the last id it saw misses nothing.
CREATE TABLE event (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at           timestamptz NOT NULL,
    window_start timestamptz NOT NULL,
    window_end   timestamptz NOT NULL,
    units        bigint      NOT NULL,
    generation   bigint      NOT NULL,
    grant_id     uuid,
    agent        uuid,
    kind         text        NOT NULL,
    tenant       text COLLATE "C" NOT NULL,
    dimension    text COLLATE "C" NOT NULL,
    note         text        NOT NULL
) WITH (autovacuum_vacuum_insert_scale_factor = 0.1);
