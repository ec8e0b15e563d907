-- +goose Up

-- Who waits its turn. A row of line is there while somebody waits: its lock is that of its
-- tickets, and the whole table is what a replica looks at to tell agents where not to overtake.
-- It goes with its last ticket, and every ticket goes in time, so neither table grows.
CREATE TABLE line (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    oldest    timestamptz,                              -- when the head joined; NULL: being made
    lapses_at timestamptz,                              -- when the first ticket does, unless it is asked about
    tickets   bigint           NOT NULL DEFAULT 0,
    tenant    text COLLATE "C" NOT NULL,
    operation text COLLATE "C" NOT NULL,
    -- How a line is found, and the order in which they are listed. Neither column changes.
    CONSTRAINT line_key UNIQUE (tenant, operation)
) WITH (
    fillfactor = 50,                                    -- updated with every step of a ticket
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 200,
    autovacuum_vacuum_cost_delay = 0
);

-- One caller's place. A line is always read whole and in its order, which is its primary key,
-- so that one index serves all: an id is looked for among the line's own tickets, and the
-- times that asking changes are in none (HOT).
CREATE TABLE ticket (
    line_id   bigint      NOT NULL,
    seq       bigint      NOT NULL,
    times     bigint      NOT NULL,
    joined_at timestamptz NOT NULL,
    asked_at  timestamptz NOT NULL,
    ask_by    timestamptz NOT NULL,
    ends_at   timestamptz NOT NULL,
    id        uuid        NOT NULL,
    PRIMARY KEY (line_id, seq),
    CONSTRAINT ticket_times CHECK (times > 0)
) WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 200,
    autovacuum_vacuum_cost_delay = 0
);
