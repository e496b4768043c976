//! The agent CLIs: their versions, their configuration for a mock, and their start.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value, json};

/// A CLI, at the version that the tests pin unless they name another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cli {
    /// Claude Code.
    Claude,
    /// Codex CLI.
    Codex,
    /// Gemini CLI.
    Gemini,
    /// GitHub Copilot CLI.
    Copilot,
    /// opencode.
    Opencode,
}

/// How the prompt reaches the CLI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Via {
    /// On standard input.
    Stdin,
    /// As an argument.
    Argv,
}

/// The permissions that the agent has without asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permit {
    /// The CLI's own defaults.
    Default,
    /// All permissions.
    All,
}

/// An MCP server on stdio; the CLIs get it under the name `callsheet`.
#[derive(Debug, Clone)]
pub struct McpServer {
    /// The program of the server.
    pub command: String,
    /// The arguments of the server.
    pub args: Vec<String>,
    /// The environment of the server.
    pub env: Vec<(String, String)>,
}

/// One headless start of a CLI.
#[derive(Debug, Clone)]
pub struct Launch<'a> {
    /// The prompt.
    pub prompt: &'a str,
    /// The version; one of [`Cli::versions`].
    pub version: Option<&'static str>,
    /// How the prompt reaches the CLI.
    pub via: Via,
    /// Whether the CLI prints its own stream of events instead of plain text.
    pub stream: bool,
    /// The permissions of the agent.
    pub permit: Permit,
    /// The MCP server that the agent gets.
    pub mcp: Option<McpServer>,
    /// Arguments before the prompt, after all others.
    pub extra: Vec<String>,
    /// Variables besides its own; an empty value removes one.
    pub env: Vec<(String, String)>,
    /// The time after which the CLI is killed.
    pub deadline: Duration,
}

impl<'a> Launch<'a> {
    /// Creates a start of the pinned version by stdin, with all permissions, plain text and a deadline of two minutes.
    pub fn new(prompt: &'a str) -> Self {
        Self {
            prompt,
            version: None,
            via: Via::Stdin,
            stream: false,
            permit: Permit::All,
            mcp: None,
            extra: Vec::new(),
            env: Vec::new(),
            deadline: Duration::from_secs(120),
        }
    }
}

const KEY: &str = "test-key";

impl Cli {
    /// All CLIs.
    pub const ALL: [Self; 5] = [Self::Claude, Self::Codex, Self::Gemini, Self::Copilot, Self::Opencode];

    /// Returns the name of its program, which our agent files use too.
    pub fn name(self) -> &'static str {
        self.pinned().0
    }

    /// Returns the name of its npm package.
    pub fn package(self) -> &'static str {
        self.pinned().1
    }

    /// Returns the pinned version.
    pub fn version(self) -> &'static str {
        self.pinned().2
    }

    /// Returns the name, the package and the version.
    fn pinned(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Claude => ("claude", "@anthropic-ai/claude-code", "2.1.325"),
            Self::Codex => ("codex", "@openai/codex", "0.166.0"),
            Self::Gemini => ("gemini", "@google/gemini-cli", "0.61.0"),
            Self::Copilot => ("copilot", "@github/copilot", "1.0.102"),
            Self::Opencode => ("opencode", "opencode-ai", "1.18.33"),
        }
    }

    /// Returns the versions that the tests use: the pinned one, and an older one that behaves differently.
    pub fn versions(self) -> Vec<&'static str> {
        match self {
            // It does not read AGENTS.md.
            Self::Claude => vec![self.version(), "2.1.197"],
            _ => vec![self.version()],
        }
    }

    /// Returns the script that must run after npm, which installs without scripts because newer versions of
    /// npm refuse to run them.
    pub(crate) fn install_script(self) -> Option<&'static str> {
        (self == Self::Claude).then_some("@anthropic-ai/claude-code/install.cjs")
    }

    /// Returns the agent's name for a tool of the MCP server `callsheet`.
    pub fn mcp_tool(self, tool: &str) -> String {
        match self {
            Self::Claude | Self::Codex => format!("mcp__callsheet__{tool}"),
            Self::Gemini => format!("mcp_callsheet_{tool}"),
            Self::Copilot => format!("callsheet-{tool}"),
            Self::Opencode => format!("callsheet_{tool}"),
        }
    }

    /// Writes the CLI's files into `home` and returns its environment.
    pub(crate) fn configure(self, home: &Path, url: &str) -> io::Result<Vec<(&'static str, String)>> {
        let fixed = |pairs: &[(&'static str, &str)]| -> Vec<_> {
            pairs.iter().map(|(name, value)| (*name, (*value).to_owned())).collect()
        };
        Ok(match self {
            Self::Claude => fixed(&[
                ("ANTHROPIC_BASE_URL", url),
                ("ANTHROPIC_API_KEY", KEY),
                ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
                ("CLAUDE_CODE_MAX_RETRIES", "1"),
                ("DISABLE_AUTOUPDATER", "1"),
                // Lets root have all permissions.
                ("IS_SANDBOX", "1"),
            ]),
            Self::Codex => {
                write(&home.join(".codex/config.toml"), &codex_config(url))?;
                let codex = home.join(".codex").display().to_string();
                fixed(&[("CODEX_HOME", &codex), ("MOCK_KEY", KEY)])
            }
            Self::Gemini => {
                let path = home.join(".gemini/settings.json");
                if !path.exists() {
                    write(&path, &gemini_settings().to_string())?;
                }
                fixed(&[
                    ("GEMINI_API_KEY", KEY),
                    ("GOOGLE_GEMINI_BASE_URL", url),
                    ("GEMINI_CLI_TRUST_WORKSPACE", "true"),
                ])
            }
            Self::Copilot => {
                let copilot = home.join(".copilot").display().to_string();
                // It unpacks itself, which takes seconds: do it once, at the installation.
                let unpacked = self.home().map_err(io::Error::other)?.join(".cache/copilot");
                fixed(&[
                    ("COPILOT_PKG_CACHE_HOME", &unpacked.display().to_string()),
                    ("COPILOT_PROVIDER_BASE_URL", &format!("{url}/v1")),
                    ("COPILOT_PROVIDER_API_KEY", KEY),
                    ("COPILOT_PROVIDER_MAX_PROMPT_TOKENS", "2000000"),
                    ("COPILOT_MODEL", "mock-model"),
                    ("COPILOT_OFFLINE", "true"),
                    ("COPILOT_AUTO_UPDATE", "false"),
                    ("COPILOT_HOME", &copilot),
                ])
            }
            Self::Opencode => {
                let path = home.join("opencode.json");
                write(&path, &opencode_config(url).to_string())?;
                fixed(&[
                    ("OPENCODE_CONFIG", &path.display().to_string()),
                    ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
                    ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
                ])
            }
        })
    }

    /// Returns the arguments of a headless start, and the bytes for stdin.
    pub(crate) fn build_arguments<'a>(
        self,
        launch: &Launch<'a>,
        home: &Path,
    ) -> io::Result<(Vec<String>, &'a [u8])> {
        let mut args: Vec<String> = Vec::new();
        let mut add = |words: &[&str]| args.extend(words.iter().map(|&word| word.to_owned()));
        let all = launch.permit == Permit::All;
        let mcp_file = home.join("mcp.json").display().to_string();
        if let Some(server) = &launch.mcp {
            write(Path::new(&mcp_file), &mcp_config(self, server).to_string())?;
        }
        match self {
            Self::Claude => {
                add(&["-p"]);
                if launch.stream {
                    add(&["--output-format", "stream-json", "--verbose"]);
                }
                if launch.mcp.is_some() {
                    add(&["--mcp-config", &mcp_file, "--strict-mcp-config"]);
                }
                if all {
                    add(&["--dangerously-skip-permissions"]);
                }
            }
            Self::Codex => {
                add(&["exec", "--skip-git-repo-check"]);
                if launch.stream {
                    add(&["--json"]);
                }
                if all {
                    add(&["-s", "danger-full-access"]);
                }
                for line in launch.mcp.iter().flat_map(codex_mcp) {
                    add(&["-c", &line]);
                }
            }
            Self::Gemini => {
                add(&["-m", "gemini-2.5-pro"]);
                if launch.stream {
                    add(&["-o", "stream-json"]);
                }
                if all {
                    add(&["--approval-mode", "yolo"]);
                }
                if let Some(server) = &launch.mcp {
                    let mut settings = gemini_settings();
                    settings["mcpServers"] = mcp_config(self, server)["mcpServers"].clone();
                    write(&home.join(".gemini/settings.json"), &settings.to_string())?;
                }
            }
            Self::Copilot => {
                add(&["--disable-builtin-mcps"]);
                add(if launch.stream { &["--output-format", "json"] } else { &["-s"] });
                if launch.mcp.is_some() {
                    add(&["--additional-mcp-config", &format!("@{mcp_file}")]);
                }
                if all {
                    add(&["--allow-all-tools"]);
                }
            }
            // It allows all tools by itself.
            Self::Opencode => {
                add(&["run"]);
                if launch.stream {
                    add(&["--format", "json"]);
                }
                if let Some(server) = &launch.mcp {
                    let path = home.join("opencode.json");
                    let mut config: Value = serde_json::from_slice(&fs::read(&path)?)?;
                    config["mcp"] = opencode_mcp(server);
                    write(&path, &config.to_string())?;
                }
            }
        }
        args.extend(launch.extra.iter().cloned());
        let mut add = |words: &[&str]| args.extend(words.iter().map(|&word| word.to_owned()));
        match (launch.via, self) {
            (Via::Stdin, Self::Codex) => add(&["-"]),
            (Via::Stdin, _) => {}
            (Via::Argv, Self::Claude | Self::Codex | Self::Opencode) => add(&["--", launch.prompt]),
            (Via::Argv, Self::Gemini | Self::Copilot) => add(&["-p", launch.prompt]),
        }
        Ok((args, if launch.via == Via::Stdin { launch.prompt.as_bytes() } else { &[] }))
    }
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    fs::write(path, text)
}

/// Returns a configuration with a model name that Codex does not know: it then offers MCP tools at once and
/// proposes no newer model.
fn codex_config(url: &str) -> String {
    format!(
        r#"model = "mock-model"
model_provider = "mock"
check_for_update_on_startup = false

[analytics]
enabled = false

[features]
plugins = false

[model_providers.mock]
name = "mock"
base_url = "{url}/v1"
env_key = "MOCK_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
"#
    )
}

/// Returns the server as values of `-c`: a JSON string is also a TOML string.
fn codex_mcp(server: &McpServer) -> Vec<String> {
    let env: Vec<_> = server.env.iter().map(|(name, value)| format!("{name}={}", json!(value))).collect();
    let set = |key: &str, value: String| format!("mcp_servers.callsheet.{key}={value}");
    vec![
        set("command", json!(server.command).to_string()),
        set("args", json!(server.args).to_string()),
        set("env", format!("{{{}}}", env.join(","))),
        set("default_tools_approval_mode", json!("approve").to_string()),
    ]
}

/// Returns the server in the form that Claude, Gemini and Copilot read.
fn mcp_config(cli: Cli, server: &McpServer) -> Value {
    let env: Map<_, _> = server.env.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    let mut entry = json!({ "command": server.command, "args": server.args, "env": env });
    match cli {
        Cli::Copilot => {
            entry["type"] = json!("local");
            entry["tools"] = json!(["*"]);
        }
        Cli::Gemini => entry["trust"] = json!(true),
        Cli::Claude | Cli::Codex | Cli::Opencode => {}
    }
    json!({ "mcpServers": { "callsheet": entry } })
}

/// Returns the server in the form that opencode reads.
fn opencode_mcp(server: &McpServer) -> Value {
    let command: Vec<_> = std::iter::once(&server.command).chain(&server.args).collect();
    let env: Map<_, _> = server.env.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    json!({ "callsheet": { "type": "local", "command": command, "environment": env } })
}

fn opencode_config(url: &str) -> Value {
    let limit = json!({ "context": 4_000_000, "output": 8000 });
    let provider = json!({
        "npm": "@ai-sdk/openai-compatible",
        "options": { "baseURL": format!("{url}/v1"), "apiKey": KEY },
        "models": { "mock-model": { "name": "mock", "limit": limit } },
    });
    json!({ "provider": { "mock": provider }, "model": "mock/mock-model", "small_model": "mock/mock-model" })
}

fn gemini_settings() -> Value {
    json!({
        "security": { "auth": { "selectedType": "gemini-api-key" } },
        "privacy": { "usageStatisticsEnabled": false },
        "general": { "enableAutoUpdate": false },
    })
}
