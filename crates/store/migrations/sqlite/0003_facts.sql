CREATE TABLE run_facts (
  seq INTEGER PRIMARY KEY,
  rules INTEGER NOT NULL,
  project TEXT NOT NULL,
  number INTEGER NOT NULL,
  task_key TEXT,
  attempt INTEGER NOT NULL,
  flow TEXT,
  task_text TEXT NOT NULL,
  template TEXT,
  template_version TEXT,
  profile TEXT,
  model TEXT,
  program TEXT,
  host TEXT,
  status TEXT NOT NULL,
  outcome TEXT NOT NULL,
  failed INTEGER NOT NULL,
  closed INTEGER NOT NULL,
  checks TEXT NOT NULL,
  checks_passed INTEGER NOT NULL,
  checks_total INTEGER NOT NULL,
  changed_files INTEGER,
  ended_at TEXT,
  duration_ms INTEGER,
  input_tokens INTEGER,
  output_tokens INTEGER,
  cached_tokens INTEGER,
  cost_microusd INTEGER,
  all_input_tokens INTEGER,
  cost_estimated INTEGER NOT NULL
);
CREATE UNIQUE INDEX run_facts_by_number ON run_facts (project, number);
CREATE INDEX run_facts_by_task ON run_facts (project, task_key, seq) WHERE task_key IS NOT NULL;
CREATE INDEX run_facts_by_flow ON run_facts (flow, seq) WHERE flow IS NOT NULL;
CREATE INDEX run_facts_failed ON run_facts (seq) WHERE failed = 1;
CREATE INDEX run_facts_by_outcome ON run_facts (outcome, seq);
CREATE INDEX run_facts_by_host ON run_facts (host, seq) WHERE host IS NOT NULL;
CREATE INDEX run_facts_open ON run_facts (seq) WHERE closed = 0 AND task_key IS NOT NULL;
CREATE TABLE run_numbers (
  project TEXT PRIMARY KEY,
  last INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX runs_by_task ON runs (task, seq) WHERE task IS NOT NULL;
CREATE INDEX runs_by_agent ON runs (agent, seq) WHERE agent IS NOT NULL;
CREATE INDEX runs_by_phase ON runs (phase, seq) WHERE phase IS NOT NULL;
CREATE INDEX runs_by_started ON runs (started, seq);
