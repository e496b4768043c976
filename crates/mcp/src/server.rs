//! Implements the MCP server of a session: its tools, prompts and resources, and its answers.

use std::sync::Arc;

use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::library::contract::Contract;
use callsheet_core::library::lookup::list_roles;
use callsheet_core::record::{Id, sha256};
use callsheet_core::secrets::SecretMode;
use callsheet_core::submission::build_schema;
use callsheet_run::{SubmissionError, SubmissionPermission, SubmissionRequest, ask_guard};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestParams, CompleteResult,
    ContentBlock, CustomRequest, CustomResult, ErrorCode, GetPromptRequestParams, GetPromptResponse,
    Implementation, ListPromptsResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer, ServiceExt as _};
use rmcp::{ErrorData, ServerHandler};
use serde_json::{Map, Value, json};

use super::transport::StdioTransport;
use super::{prompts, resources};
use callsheet::error::{CommandResult, Error, Result};
use callsheet::output::{DocumentOutput, DocumentSchema, SubmissionOutput, to_json};
use callsheet::project::state::RunDir;
use callsheet::session::{SessionDir, SubmissionResult, refusal_reasons};

/// A session and the permissions of its client.
#[derive(Debug)]
pub struct SessionServer {
    /// The session that is served.
    pub session: SessionDir,
    /// The contracts that a client can submit to, by name.
    pub tools: Vec<(String, Contract)>,
    /// The agent that prompts are composed for, if one is configured.
    pub agent: Option<String>,
    /// The treatment of secrets in prompts. No person is present to see a warning.
    pub secrets: SecretMode,
    /// The run whose agent submits; `None` if a person attached the server.
    pub run: Option<SubmittingRun>,
}

/// The run that submits, and the directory of the guard that must agree.
#[derive(Debug)]
pub struct SubmittingRun {
    /// The id of the run.
    pub id: Id,
    /// Its role.
    pub role: Option<String>,
    /// The directory in which its guard listens.
    pub run_dir: RunDir,
}

impl SubmittingRun {
    /// Accepts a submission once, from a process below the guard of an active run. Writes nothing if the
    /// guard does not agree.
    fn submit(&self, session: &SessionDir, tool: &str, data: &Value) -> Result<Value> {
        let refused = |why: SubmissionError| -> Error {
            let message = format!("run {} accepts no submission from this process: {why}", self.id);
            let hint = "only the agent of a run can submit for it, until the run ends";
            Diagnostic::error(Code::RunRefused, message).hint(hint).into()
        };
        let request = SubmissionRequest {
            run: self.id.to_string(),
            tool: tool.to_owned(),
            sha256: sha256(&[data.to_string().as_bytes()]).to_string(),
            session: session.dir.clone(),
            role: self.role.clone(),
        };
        match ask_guard(self.run_dir.dir(), &request).map_err(refused)? {
            SubmissionPermission::Before(done) => Ok(done),
            SubmissionPermission::Granted(open) => {
                let done = match session.submit(tool, data) {
                    Ok(done) => json!(done),
                    Err(failure) => {
                        // The agent gets the error below in any case, and may correct itself.
                        let _ = open.refuse(refusal_reasons(failure.diagnostics(), Some(tool)));
                        return Err(failure);
                    }
                };
                open.finish(data["verdict"].clone(), done.clone()).map_err(refused)?;
                Ok(done)
            }
        }
    }
}

/// Answers requests until standard input ends.
pub fn serve(server: SessionServer) -> CommandResult {
    let failed = |error: &dyn std::fmt::Display| -> Error {
        Diagnostic::error(Code::OutputFailed, format!("the MCP server ended: {error}")).into()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.map_err(|error| failed(&error))?;
    runtime.block_on(async {
        match server.serve(StdioTransport::start()).await {
            Ok(running) => running.waiting().await.map(drop).map_err(|error| failed(&error)),
            // A client that disconnects before its first message is not an error of the server.
            Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(error) => Err(failed(&error)),
        }
    })?;
    Ok(0)
}

impl ServerHandler for SessionServer {
    fn get_info(&self) -> ServerConfig {
        let offered =
            ServerCapabilities::builder().enable_tools().enable_prompts().enable_resources().build();
        ServerConfig::new(offered)
            .with_server_info(Implementation::new("callsheet", env!("CARGO_PKG_VERSION")))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let roles = list_roles(&self.session.disk, &self.session.layout);
        let output = Arc::new(output_schema());
        let tools = self.tools.iter().filter_map(|(name, contract)| {
            let Value::Object(schema) = build_schema(contract.submission.as_ref()?, &roles) else {
                return None;
            };
            let tool = Tool::new(name.clone(), contract.description.clone(), schema);
            Some(tool.with_raw_output_schema(Arc::clone(&output)))
        });
        Ok(ListToolsResult::with_all_items(tools.collect()))
    }

    /// Submits data to a tool. A rejected submission is a result, not a protocol error: the agent reads it
    /// and tries again.
    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if !self.tools.iter().any(|(name, _)| *name == request.name) {
            let names: Vec<&str> = self.tools.iter().map(|(name, _)| name.as_str()).collect();
            let wrong = Diagnostic::error(Code::SubmissionBad, format!("unknown tool `{}`", request.name))
                .suggest(&request.name, names.iter().copied())
                .hint(format!("known tools: {}", names.join(", ")));
            return Err(invalid_params(&wrong.into()));
        }
        let data = Value::Object(request.arguments.unwrap_or_default());
        let taken = match &self.run {
            Some(run) => run.submit(&self.session, &request.name, &data),
            None => self.session.submit(&request.name, &data).map(|done| json!(done)),
        };
        let result = match taken {
            // An earlier version may have accepted it, without a field of today.
            Ok(done) => {
                let done: SubmissionResult = serde_json::from_value(done).unwrap_or_default();
                CallToolResult::structured(to_json(&SubmissionOutput::from(&done)))
            }
            Err(failure) => CallToolResult::error(vec![ContentBlock::text(failure.to_string())]),
        };
        Ok(result.into())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(prompts::list(self)))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        prompts::get(self, &request.name, &arguments)
            .map(Into::into)
            .map_err(|failure| invalid_params(&failure))
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let resources = resources::list(&self.session).map_err(|failure| invalid_params(&failure))?;
        Ok(ListResourcesResult::with_all_items(resources))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        match resources::read(&self.session, &request.uri) {
            Ok(result) => Ok(result.into()),
            Err(failure) => Err(ErrorData::resource_not_found(failure.to_string(), None)),
        }
    }

    /// Refuses completions, which the server does not offer. The library would answer with an empty list.
    async fn complete(
        &self,
        _: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(unknown_method("completion/complete"))
    }

    /// Answers requests that no other handler accepts: an unknown method, or a known one with malformed
    /// parameters.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = request.method;
        Err(if METHODS.contains(&method.as_str()) {
            let message = format!("invalid parameters for `{method}`");
            ErrorData::new(ErrorCode::INVALID_PARAMS, message, None)
        } else {
            unknown_method(&method)
        })
    }
}

/// Returns the schema of the results of tools. Some clients know only their own dialect of JSON Schema, and refuse a schema that names
/// another one.
fn output_schema() -> Map<String, Value> {
    let schema = DocumentSchema::find(SubmissionOutput::NAME).map(DocumentSchema::schema);
    let mut schema = schema.and_then(|schema| schema.as_object().cloned()).unwrap_or_default();
    schema.shift_remove("$schema");
    schema.shift_remove("$id");
    schema
}

/// The supported methods with parameters.
const METHODS: [&str; 7] = [
    "initialize",
    "tools/call",
    "tools/list",
    "prompts/get",
    "prompts/list",
    "resources/read",
    "resources/list",
];

fn invalid_params(failure: &Error) -> ErrorData {
    ErrorData::new(ErrorCode::INVALID_PARAMS, failure.to_string(), None)
}

fn unknown_method(method: &str) -> ErrorData {
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("unknown method `{method}`"), None)
}
