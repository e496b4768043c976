// A session of the official SDK with `callsheet mcp`: argv is the SDK's folder, the project, and the command that starts
// callsheet. Prints everything that was answered as one JSON object.
const [sdk, project, command, ...words] = process.argv.slice(2);
const from = (path) => import(`${sdk}/node_modules/@modelcontextprotocol/sdk/dist/esm/${path}`);
const { Client } = await from("client/index.js");
const { StdioClientTransport } = await from("client/stdio.js");

async function connect(...more) {
  const client = new Client({ name: "test", version: "1" });
  const args = [...words, "mcp", "--session", "session", ...more];
  await client.connect(new StdioClientTransport({ command, args, cwd: project, stderr: "inherit" }));
  return client;
}

const out = {};
const planner = await connect("--role", "planner");
out.server = planner.getServerVersion();
out.capabilities = planner.getServerCapabilities();
out.tools_of_planner = (await planner.listTools()).tools.map((tool) => tool.name);
await planner.close();

const client = await connect();
out.tools = (await client.listTools()).tools.map((tool) => tool.name);
const call = async (name, args) => {
  try {
    const { content, isError, structuredContent } = await client.callTool({ name, arguments: args });
    return { isError, text: content.map((part) => part.text), ...(structuredContent && { structuredContent }) };
  } catch (error) {
    return { code: error.code, message: error.message };
  }
};
const attempt = async (answer) => {
  try {
    return await answer();
  } catch (error) {
    return { code: error.code, message: error.message };
  }
};

const architecture = {
  solution_overview: "A link starts the export.",
  components: [{ name: "Exporter", responsibility: "Writes rows.", interfaces: ["export(account)"] }],
  interfaces_and_contracts: "GET /export",
  data_models: "None.",
  cross_cutting_concerns: "Memory.",
  technology_choices: "csv",
  risks_and_mitigations: "A slow reader.",
};
const subplan = (index, owned, more) => ({
  index,
  title: `Part ${index}`,
  scope: "This.",
  owned_files: owned,
  dependencies: "None.",
  implementation_approach: "Tests first.",
  acceptance_criteria: "It works.",
  tasks: ["Write the tests", "Implement it"],
  ...more,
});
const alone = { isolation_rationale: "It alone writes these files." };
const plan = (second, third) => ({
  plan_overview: "Contracts first, then two lanes.",
  phase_1: "The interface.",
  phase_2: "Export and page.",
  phase_3: "Nothing: the lanes meet at the interface.",
  conflict_map: [],
  groups: [
    { group_id: "contracts", mode: "serial", plans: [{ index: 1, name: "Contracts" }] },
    { group_id: "lanes", mode: "parallel", plans: [{ index: 2, name: "Export" }, { index: 3, name: "Page" }] },
  ],
  subplans: [subplan(1, ["src/api.rs"]), second, third],
  needs_design: false,
  needs_docs: true,
  doc_files: ["docs/export.md"],
  review_strategy: { severity: "medium", focus: ["memory"] },
});
const review = { verdict: "fail", summary: "One error.", findings: [{ issue: "It ends.", severity: "high", recommendation: "Return it." }] };

out.architecture = await call("submit_architecture", architecture);
out.plan = await call("submit_plan", plan(subplan(2, ["src/export/**"], alone), subplan(3, ["docs/**"], alone)));
out.review = await call("submit_review", {
  ...review,
  preferences: [{ target_role: "coder", bullet: "* **Always** return errors" }],
});

out.bad = {
  unknown_field: await call("submit_review", { ...review, verdit: "pass" }),
  wrong_types: await call("submit_review", { verdict: true, summary: 7, findings: "none" }),
  missing: await call("submit_architecture", { ...architecture, data_models: undefined, components: undefined }),
  blank: await call("submit_review", { ...review, summary: "  \n" }),
  no_choice: await call("submit_review", { ...review, verdict: "PASS" }),
  fail_without_findings: await call("submit_review", { verdict: "fail", summary: "s", findings: [] }),
  inside_a_list: await call("submit_review", { ...review, findings: [review.findings[0], { issue: "x", severity: "bad" }] }),
  path_outside: await call("submit_plan", plan(subplan(2, ["../x"], alone), subplan(3, ["/etc/passwd"], alone))),
  lanes_overlap: await call("submit_plan", plan(subplan(2, ["src/**"], alone), subplan(3, ["docs/**", "src/page.rs"]))),
  role_as_path: await call("submit_review", { ...review, preferences: [{ target_role: "../../evil", bullet: "x" }] }),
  file_name: await call("submit_review", { ...review, role: "../evil" }),
  nothing_before: await call("submit_done", { subplan_index: 9 }),
  unknown_tool: await call("submit_reveiw", review),
  too_large: await call("submit_review", { ...review, summary: "x".repeat(5 * 1024 * 1024) }),
  unknown_prompt: await attempt(() => client.getPrompt({ name: "profiles/codr", arguments: {} })),
  unknown_argument: await attempt(() => client.getPrompt({ name: "profiles/coder", arguments: { tsk: "x" } })),
  unknown_resource: await attempt(() => client.readResource({ uri: "session:///07_review/none.md" })),
  resource_outside: await attempt(() => client.readResource({ uri: "session:///..%2F..%2Fetc/passwd" })),
};

out.resources = (await client.listResources()).resources;
out.resource = await client.readResource({ uri: "session:///07_review/review.md" });
out.prompts = (await client.listPrompts()).prompts.map((prompt) => prompt.name);
out.prompt = await client.getPrompt({ name: "profiles/coder", arguments: { instructions: "Do {{it}}" } });
await client.close();
process.stdout.write(JSON.stringify(out, null, 2) + "\n");
