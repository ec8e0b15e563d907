-- +goose Up

-- Rate and concurrency limits, allowances for outages, leases for the next window, credits and
-- statements. Every column that is added has a constant default or none, so no row is
-- rewritten, and replicas of the version before go on: they name the columns that they know.

ALTER TABLE account
    ADD COLUMN rate_units    bigint   NOT NULL DEFAULT 0,    -- rate keys: units a rate_per
    ADD COLUMN rate_per      interval NOT NULL DEFAULT '0',
    ADD COLUMN max_hold      interval NOT NULL DEFAULT '0',  -- concurrency keys: the longest run
    ADD COLUMN pot           bigint   NOT NULL DEFAULT 0,    -- for outage mode extend; 0: none
    ADD COLUMN final_after   interval NOT NULL DEFAULT '0',  -- of the statement; 0: never
    ADD COLUMN bucket_spent  bigint   NOT NULL DEFAULT 0,    -- rate keys: granted, not yet come back
    ADD COLUMN bucket_part   bigint   NOT NULL DEFAULT 0,    -- of one unit, in units of 1/rate_per nanoseconds
    ADD COLUMN bucket_at     timestamptz,                    -- as of when
    ADD COLUMN wanted_at     timestamptz,                    -- holders were last asked to give back
    ADD COLUMN credit        bigint   NOT NULL DEFAULT 0,    -- added to the limit by operators
    ADD COLUMN released      bigint   NOT NULL DEFAULT 0,    -- held units that operators gave back
    ADD COLUMN opening_limit bigint   DEFAULT 0,             -- at the first decision; NULL: unlimited
    ADD COLUMN opened_at     timestamptz,
    ADD COLUMN closed_at     timestamptz,                    -- first statement; NULL: none yet
    ADD COLUMN final_at      timestamptz,                    -- NULL: the statement may still change
    ADD COLUMN final_by      timestamptz,                    -- when time makes it final; NULL: it is, or never
    ADD COLUMN revision      bigint   NOT NULL DEFAULT 0,    -- of the statement
    ADD COLUMN emergency     bigint   NOT NULL DEFAULT 0,    -- authorised for an outage, not confirmed unspent
    ADD COLUMN extended      bigint   NOT NULL DEFAULT 0;    -- of that, used

ALTER TABLE lease_grant
    ADD COLUMN starts_at timestamptz,                        -- leases for the next window; NULL: at once
    ADD COLUMN ends_at   timestamptz,                        -- slots: unconfirmed ones count until then
    ADD COLUMN delay     interval NOT NULL DEFAULT '0',      -- trickle: nothing before, from receipt
    ADD COLUMN drip      interval NOT NULL DEFAULT '0',      -- trickle: then evenly over this
    ADD COLUMN seq       bigint   NOT NULL DEFAULT 0,        -- slots: latest renewal or report
    ADD COLUMN in_use    bigint   NOT NULL DEFAULT 0,        -- slots: in use, as that said
    ADD COLUMN emergency bigint   NOT NULL DEFAULT 0,
    ADD COLUMN extended  bigint   NOT NULL DEFAULT 0;

ALTER TABLE lease_grant
    DROP CONSTRAINT lease_grant_kinds,
    ADD CONSTRAINT lease_grant_kinds CHECK (kind BETWEEN 1 AND 7 AND state BETWEEN 1 AND 5) NOT VALID;

-- Slots of closed leases: when what is held or uncertain of them no longer counts. Of all
-- accounts for the sweeper, and of one account before a decision in it.
CREATE INDEX lease_grant_due_to_end ON lease_grant (ends_at) WHERE state = 2 AND kind = 5;
CREATE INDEX lease_grant_ending ON lease_grant (account_id, ends_at) WHERE state = 2 AND kind = 5;

ALTER TABLE account_folded
    ADD COLUMN emergency bigint NOT NULL DEFAULT 0,
    ADD COLUMN extended  bigint NOT NULL DEFAULT 0;

ALTER TABLE participant
    ADD COLUMN region text   NOT NULL DEFAULT '',
    ADD COLUMN demand bigint NOT NULL DEFAULT 0;

-- The limits that a window had after the one that it opened with.
CREATE TABLE account_limit (
    account_id     bigint      NOT NULL,
    line           bigint      GENERATED ALWAYS AS IDENTITY,
    at             timestamptz NOT NULL,
    unit_limit     bigint,                                   -- credits included; NULL: unlimited
    policy_version bigint      NOT NULL,
    note           text        NOT NULL,
    PRIMARY KEY (account_id, line)
);

-- One revision of one window's usage statement. Revisions are added, never changed: what was
-- billed can be told from what is known now.
CREATE TABLE statement (
    account_id bigint      NOT NULL,
    revision   bigint      NOT NULL,
    at         timestamptz NOT NULL,
    billable   bigint      NOT NULL,                         -- confirmed use
    held       bigint      NOT NULL,
    uncertain  bigint      NOT NULL,
    outstanding bigint     NOT NULL,
    emergency  bigint      NOT NULL,
    overshoot  bigint      NOT NULL,
    over_limit bigint      NOT NULL,
    unit_limit bigint,                                       -- at the end, credits included; NULL: unlimited
    credit     bigint      NOT NULL,
    final      boolean     NOT NULL,
    note       text        NOT NULL,                         -- why there is a revision
    PRIMARY KEY (account_id, revision)
);

-- Windows that end and have no statement yet, and statements that time makes final. A row is in
-- the first from the first decision to the close, in the second from there to the final one, so
-- no decision in between changes an index. The conditions keep statements about one account away.
CREATE INDEX account_unstated ON account (window_end) WHERE closed_at IS NULL AND kind <> 0 AND window_end < 'infinity';
CREATE INDEX account_unfinal ON account (final_by) WHERE final_by IS NOT NULL;
