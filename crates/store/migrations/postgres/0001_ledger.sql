CREATE TABLE migrations (
  number BIGINT PRIMARY KEY,
  name TEXT NOT NULL,
  sha256 TEXT NOT NULL
);
CREATE TABLE blobs (
  sha256 BYTEA PRIMARY KEY,
  size BIGINT NOT NULL,
  zstd BYTEA NOT NULL,
  packed BIGINT NOT NULL
);
CREATE TABLE runs (
  seq BIGINT PRIMARY KEY,
  id TEXT COLLATE "C" NOT NULL UNIQUE,
  parent TEXT,
  task TEXT,
  agent TEXT,
  phase TEXT,
  role TEXT,
  recipe TEXT NOT NULL,
  started TEXT COLLATE "C" NOT NULL,
  ended TEXT,
  verdict TEXT
);
CREATE TABLE records (
  seq BIGINT PRIMARY KEY,
  run TEXT COLLATE "C",
  flow TEXT COLLATE "C",
  kind TEXT NOT NULL,
  at TEXT NOT NULL,
  payload BYTEA,
  packed BIGINT,
  payload_sha256 BYTEA NOT NULL,
  chain BYTEA NOT NULL
);
CREATE INDEX records_by_run ON records (run) WHERE run IS NOT NULL;
CREATE INDEX records_by_flow ON records (flow) WHERE flow IS NOT NULL;
CREATE TABLE head (
  one BIGINT PRIMARY KEY CHECK (one = 1),
  seq BIGINT NOT NULL,
  chain BYTEA NOT NULL
);
