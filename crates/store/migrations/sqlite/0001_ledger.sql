CREATE TABLE migrations (
  number INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  sha256 TEXT NOT NULL
);
CREATE TABLE blobs (
  sha256 BLOB NOT NULL UNIQUE,
  size INTEGER NOT NULL,
  zstd BLOB NOT NULL,
  packed INTEGER NOT NULL
);
CREATE TABLE runs (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  parent TEXT,
  task TEXT,
  agent TEXT,
  phase TEXT,
  role TEXT,
  recipe TEXT NOT NULL,
  started TEXT NOT NULL,
  ended TEXT,
  verdict TEXT
);
CREATE TABLE records (
  seq INTEGER PRIMARY KEY,
  run TEXT,
  flow TEXT,
  kind TEXT NOT NULL,
  at TEXT NOT NULL,
  payload BLOB,
  packed INTEGER,
  payload_sha256 BLOB NOT NULL,
  chain BLOB NOT NULL
);
CREATE INDEX records_by_run ON records (run) WHERE run IS NOT NULL;
CREATE INDEX records_by_flow ON records (flow) WHERE flow IS NOT NULL;
CREATE TABLE head (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  seq INTEGER NOT NULL,
  chain BLOB NOT NULL
);
