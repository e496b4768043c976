"use strict";
// Journeys through the pages of `callsheet serve` in Chromium: one for every page and action. Prints one JSON object at its end.
const assert = require("node:assert/strict");
const fs = require("node:fs");
const path = require("node:path");
const { chromium } = require("playwright-core");
const axe = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const { CHROMIUM, ADDRESS, FACTS, SHOTS, GO, FILE, FLOW_FILE } = process.env;
const facts = JSON.parse(FACTS);
const origin = new URL(ADDRESS).origin;
const requests = new Set();
const done = [];

async function openContext(browser, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options });
  context.setDefaultTimeout(20000);
  const problems = [];
  context.on("page", (page) => {
    page.on("pageerror", (error) => problems.push(`${page.url()}: ${error.message}`));
    page.on("dialog", (dialog) => { problems.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
    page.on("console", (message) => { if (/Content Security Policy|Refused to/.test(message.text())) problems.push(message.text()); });
    page.on("request", (request) => {
      const url = new URL(request.url());
      if (url.origin === origin) requests.add(`${request.method()} ${url.pathname}`);
    });
  });
  const page = await context.newPage();
  if (!options.offline) await page.goto(ADDRESS);
  return { context, page, problems };
}

const go = (page, place) => page.goto(origin + place);
const text = (page, selector) => page.locator(selector).first().innerText();
// Live pages hold a stream open, so a quiet network never comes: wait for the thing itself.
const until = (page, selector, words) => page.locator(selector, { hasText: words }).first().waitFor();

// Waits until the run of a page has ended, and returns its name.
async function ended(page) {
  await page.locator("#strip h1 .mark:not(.live)").waitFor();
  return (await text(page, "#strip h1")).split(/\s/)[0];
}

const journeys = {
  async inbox(page) {
    await go(page, "/");
    assert.ok(!page.url().includes("token"), "the token stays out of the address");
    await until(page, "#waiting", facts.asking.name);
    await until(page, "#running", facts.live);
    await page.keyboard.press("j");
    assert.equal(await page.locator(".here").count(), 1);
    await page.keyboard.press("/");
    await page.keyboard.type("leaks");
    await page.keyboard.press("Enter");
    await page.waitForURL(/grep=leaks/);
    assert.equal(await page.locator("#results tbody tr").count(), 1);
    await go(page, "/?outcome=nonsense");
    await until(page, "#results .problem", "nonsense");
    await go(page, "/");
    await page.keyboard.press("?");
    assert.ok(await page.locator("#help").evaluate((it) => it.open));
    await page.keyboard.press("Escape");
    await page.keyboard.press("g");
    await page.keyboard.press("f");
    await page.waitForURL(/\/flows$/);
  },

  async run(page) {
    await go(page, `/runs/${facts.leak}`);
    await until(page, "#strip", "out of scope");
    // The prompt: an origin for each line, all bytes of an origin, the source at its place.
    await page.locator("#tab-prompt").click();
    const gutter = page.locator("#prompt a.gutter").first();
    await gutter.hover();
    assert.ok(await page.locator("#prompt .lit").count() > 0, "hover marks the bytes of an origin");
    await page.locator("[data-fold=close]").first().click();
    assert.equal(await page.locator("#prompt details.section[open]").count(), 0);
    await page.locator("[data-fold=open]").first().click();
    await gutter.click();
    await page.waitForURL(/\/source\?/);
    assert.ok(await page.locator(".line").count() > 0);
    await go(page, `/runs/${facts.leak}#prompt-L3`);
    assert.ok(await page.locator("#prompt-L3").isVisible(), "a deep link shows its line");
    // The log: ranges, search, the first error.
    await page.locator("#tab-log").click();
    assert.ok(await page.locator("#log-lines [data-line]").count() < 2500, "never the whole log");
    await page.locator("[data-log-search]").fill("line 2999");
    await page.locator("[data-log-search]").press("Enter");
    await until(page, "#log-lines .found", "line 2999");
    await page.locator("[data-log-error]").click();
    await until(page, "#log-lines", "error: boom");
    // The reply: what counted, and what did not and why.
    await page.locator("#tab-reply").click();
    await page.locator("#reply").waitFor();
    await page.keyboard.press("[");
    assert.equal(await page.locator("#tab-log").getAttribute("aria-selected"), "true");
  },

  async calls(page) {
    await go(page, `/runs/${facts.tools}`);
    // The strip: agent and version, outcome, checks, scope, time, tokens with the cached share, cost.
    await until(page, "[data-fact=agent]", "2.1.325");
    for (const fact of ["checks", "scope", "time", "tokens", "cost"]) await page.locator(`[data-fact=${fact}]`).waitFor();
    assert.match(await text(page, "[data-fact=tokens]"), /in, .* out/);
    // A tool call of the timeline leads to its lines, and a line of the log marks its call.
    const calls = page.locator(".calls [data-line]");
    assert.ok(await calls.count() > 50, "tool calls are listed");
    const line = await calls.nth(40).getAttribute("data-line");
    await calls.nth(40).locator("a").click();
    await page.locator(`#log-L${line}.here`).waitFor();
    assert.ok(page.url().endsWith(`#log-L${line}`), page.url());
    assert.equal(await page.locator("#timeline .step").getAttribute("data-line"), line);
    assert.ok(await page.locator("#log-lines [data-call]").count() > 10, "lines are grouped by call");
    await page.locator("[data-log-fold]").click();
    assert.equal(await page.locator("#log-lines [data-call][aria-expanded=true]").count(), 0);
    const shown = await page.locator("#log-lines [data-line]:visible").count();
    await page.locator("#log-lines [data-call]").first().click();
    assert.ok(await page.locator("#log-lines [data-line]:visible").count() > shown, "a call unfolds");
    // Deep links to lines of the change and of the log.
    await go(page, "/flows");
    await go(page, `/runs/${facts.tools}#change-F1-L2`);
    await page.locator("#change-F1-L2.here").waitFor();
    await go(page, "/flows");
    await go(page, `/runs/${facts.tools}#log-L150`);
    await page.locator("#log-L150.here").waitFor();
  },

  // Everything that the mouse does on the prompt, without it.
  async keys(page) {
    await go(page, `/runs/${facts.tools}`);
    await page.locator("#prompt").waitFor();
    for (let times = 0; times < 3; times += 1) await page.keyboard.press("j");
    const marked = await page.locator("#prompt .here").getAttribute("id");
    assert.match(marked, /^prompt-L\d+$/);
    assert.ok(await page.locator("#prompt .lit").count() > 0, "a marked line shows the bytes of its origin");
    assert.match(await text(page, "#origin-bar a"), /generalist\.md [0-9a-f]+$/);
    await page.keyboard.press("k");
    assert.notEqual(await page.locator("#prompt .here").getAttribute("id"), marked);
    for (const pane of ["change", "checks", "log", "reply", "prompt"]) {
      await page.keyboard.press("]");
      assert.equal(await page.locator("[data-tab][aria-selected=true]").getAttribute("data-tab"), pane);
    }
    await page.keyboard.press("j");
    await page.keyboard.press("o");
    await page.waitForURL(/\/source\?origin=\d+&line=\d+#L\d+$/);
    await until(page, ".subline", "version");
    assert.ok(await page.locator(".line.target").isVisible(), "the source is shown at the place of the line");
    for (const [key, address] of [["i", /\/$/], ["f", /\/flows$/], ["c", /\/costs$/], ["t", /\/templates$/]]) {
      await page.keyboard.press("g");
      await page.keyboard.press(key);
      await page.waitForURL(address);
    }
    await page.keyboard.press("?");
    assert.ok(await page.locator("#help").evaluate((it) => it.open));
    await page.keyboard.press("Escape");
    // The inbox: a row is opened, a filter is set and cleared.
    await go(page, "/");
    await page.keyboard.press("/");
    await page.keyboard.type("three notes");
    await page.keyboard.press("Enter");
    await page.waitForURL(/grep=three/);
    await page.locator(`#results [data-run="${facts.tools}"] a`).focus();
    await page.keyboard.press("Enter");
    await page.waitForURL(new RegExp(`/runs/${facts.tools}$`));
  },

  // What a prompt lacks is named with the reason.
  async absent(page) {
    await go(page, `/runs/${facts.tools}`);
    const absent = page.locator("#prompt details", { hasText: "Absent" }).first();
    await absent.locator("summary").click();
    assert.ok(await absent.locator("li, tr").count() > 0);
  },

  async filters(page) {
    const rows = async (query) => { await go(page, `/?${query}`); return page.locator("#results tbody tr").count(); };
    const all = await rows("limit=200");
    assert.ok(all > 5, `${all} runs`);
    assert.equal(await rows("agent=claude"), 1);
    assert.equal(await rows("task=T-1"), 1);
    assert.ok(await rows(`flow=${facts.judged.name}&phase=plan`) >= 1);
    assert.ok(await rows("failed=1&outcome=out_of_scope") >= 1);
    assert.equal(await rows("until=2020-01-01"), 0);
    assert.equal(await rows("since=1d&limit=200"), all);
    // A run of a flow is called by its place.
    await go(page, `/?flow=${facts.judged.name}`);
    await until(page, "#results tbody tr .text", `${facts.judged.name} · plan`);
  },

  async decide(page) {
    await go(page, `/runs/${facts.leak}#change`);
    const pending = page.locator('[data-violation="leaked.txt"]');
    assert.equal(await pending.getAttribute("data-decision"), "pending");
    // With the keyboard alone.
    await pending.locator("button[value=approve]").focus();
    await page.keyboard.press("Enter");
    await page.locator('[data-violation="leaked.txt"][data-decision=approved]').waitFor();
  },

  async replayed(page) {
    await go(page, `/runs/${facts.leak}`);
    const fields = await page.locator("form[data-action=retry] input").evaluateAll((all) => Object.fromEntries(all.map((it) => [it.name, it.value])));
    const send = (body) => page.evaluate(async (form) => (await fetch("/actions/decide", { method: "POST", body: new URLSearchParams(form) })).status, body);
    const form = { ...fields, path: "leaked.txt", decision: "approve" };
    assert.equal(await send({ ...form, form_token: "wrong" }), 403);
    assert.notEqual(await send(form), 409);
    assert.equal(await send(form), 409, "an action is done once");
  },

  async retry(page) {
    await go(page, `/runs/${facts.leak}`);
    await page.locator("form[data-action=retry] button").click();
    await page.waitForURL((url) => url.pathname.startsWith("/runs/") && !url.pathname.endsWith(`/${facts.leak}`));
    facts.second = await ended(page);
  },

  async attempts(page) {
    await go(page, `/runs/${facts.leak}`);
    await page.locator("#actions a").click();
    await page.waitForURL(/\/tasks\//);
    assert.ok(await page.locator("#attempts thead th").count() >= 3, "two attempts side by side");
    await until(page, "#prompt-diff .add", "leaked.txt");
    await until(page, "#prompt-diff", "because");
    await page.locator("#code-diff").waitFor();
  },

  async comments(page) {
    await go(page, `/runs/${facts.leak}#change`);
    const line = page.locator("#change .line.add[id]").first();
    await line.locator("a.no").focus();
    await page.keyboard.press("c");
    await page.locator("#comment textarea").fill("Keep this out of the <root>.");
    await page.locator("#comment button[value=keep]").click();
    await page.locator("#tab-prompt").click();
    await page.locator("#prompt-L2").dblclick();
    await page.locator("#comment textarea").fill("This line is old.");
    await page.locator("#comment button[value=keep]").click();
    await until(page, "#tray", "2 comments");
    await page.locator("#tray textarea").fill("And add a test.");
    await page.locator("#tray .primary").click();
    await until(page, "#continue-prompt .add", "Keep this out of the <root>.");
    await until(page, "#continue-prompt .add", "And add a test.");
    // A text that was not shown in the prompt starts nothing.
    const typed = page.locator("form[data-action=continue] textarea");
    await typed.fill(`${await typed.inputValue()} Soon.`);
    await page.locator("form[data-action=continue] .primary").click();
    await page.locator(".problem").waitFor();
    await until(page, "#continue-prompt .add", "And add a test. Soon.");
    await page.locator("form[data-action=continue] .primary").click();
    await page.waitForURL(/\/runs\//);
    facts.continued = await ended(page);
    await go(page, `/runs/${facts.leak}`);
    assert.ok(await page.locator("#tray").isHidden(), "comments that were sent are no longer collected");
  },

  async flows(page) {
    await go(page, "/flows");
    assert.equal(await page.locator("#flows [data-row]").count(), 3);
    await page.locator(`#flows [data-flow="${facts.asking.name}"] a`).click();
    await page.waitForURL(/\/flows\//);
    assert.ok(await page.locator("#graph svg .node.current").count() >= 1);
    assert.ok(await page.locator("#graph svg .edge title").count() >= 4);
  },

  async answer(page) {
    await go(page, `/flows/${facts.asking.flow}`);
    await until(page, "#questions", "Which database?");
    await page.locator("button[value=answer]").click();
    assert.ok(await page.locator("textarea[aria-invalid]").count() === 1, "an answer needs a text");
    await page.locator("#decide textarea").fill("PostgreSQL");
    await page.locator("button[value=answer]").click();
    await until(page, "#strip .mark", "done");
  },

  async approve(page) {
    await go(page, `/flows/${facts.judged.flow}`);
    await page.locator("#waits li").waitFor();
    await page.locator("#decide textarea").fill("Plan it anew.");
    await page.locator("button[value=approve]").click();
    await until(page, "#strip .mark", "done");
  },

  async costs(page) {
    await go(page, "/costs");
    await page.locator("#by-agent svg rect").first().waitFor();
    assert.ok(await page.locator("#by-day table tbody tr").count() >= 1);
    await page.keyboard.press("/");
    await page.keyboard.type("1h");
    await page.keyboard.press("Enter");
    await page.waitForURL(/since=1h/);
    await go(page, "/costs?since=whenever");
    await until(page, ".problem", "whenever");
  },

  async templates(page) {
    await go(page, "/templates");
    await page.keyboard.press("/");
    await page.keyboard.type("base-plan");
    const rows = page.locator("#templates tbody tr:visible");
    assert.equal(await rows.count(), 1);
    await rows.locator("a").click();
    await page.waitForURL(/\/templates\/system\/BASE-plan/);
    await until(page, "[data-fact=wins]", "builtin");
    await page.locator("#uses").waitFor();
  },

  // Twenty tabs follow one run, and each sees its next lines.
  async tabs(page) {
    const tabs = await Promise.all(Array.from({ length: 20 }, () => page.context().newPage()));
    await Promise.all(tabs.map((tab) => go(tab, `/runs/${facts.live}#log`)));
    const count = (tab) => tab.locator("#tab-log .number").innerText().then(Number);
    const before = await Promise.all(tabs.map(count));
    await Promise.all(tabs.map((tab, at) => tab.waitForFunction((least) => Number(document.querySelector("#tab-log .number").textContent) > least, before[at] + 3)));
    await Promise.all(tabs.map((tab) => tab.close()));
  },

  async live(page) {
    await go(page, `/runs/${facts.live}#log`);
    await until(page, "#live", "live");
    const before = Number(await text(page, "#tab-log .number"));
    await page.waitForFunction((count) => Number(document.querySelector("#tab-log .number").textContent) > count + 3, before);
    assert.ok(await page.locator("#log-lines", { hasText: "tick" }).count() > 0);
    // The agent ends while the page looks.
    fs.writeFileSync(GO, "");
    await until(page, "#strip .mark", "succeeded");
    await page.locator("#tab-change").click();
    await until(page, "#change", "src/live.txt");
  },

  async stop(page) {
    await go(page, "/");
    await page.locator(`#running [data-run="${facts.long}"] a`).click();
    await page.locator("form[data-action=stop] button").click();
    await until(page, "#strip .mark", "stopped");
  },

  async hostile(page) {
    for (const place of [`/runs/${facts.hostile}`, "/", `/tasks/${facts.hostile}`, "/costs"]) {
      await go(page, place);
      assert.equal(await page.evaluate(() => window.pwned), undefined, place);
      assert.equal(await page.locator("main img, main iframe, main script, main style").count(), 0, place);
    }
    await go(page, `/runs/${facts.hostile}#change`);
    await until(page, "#change", "<script>");
    assert.equal(await page.locator("body > *").last().evaluate((it) => it.tagName), "DIALOG", "nothing broke out");
  },
};

const pages = () => ({
  inbox: "/",
  run: `/runs/${facts.tools}#prompt`,
  change: `/runs/${facts.leak}#change`,
  log: `/runs/${facts.tools}#log`,
  reply: `/runs/${facts.leak}#reply`,
  source: `/runs/${facts.tools}/source?origin=0`,
  continue: `/runs/${facts.continued}`,
  attempts: `/tasks/${facts.leak}`,
  flows: "/flows",
  flow: `/flows/${facts.waiting.flow}`,
  costs: "/costs",
  templates: "/templates",
  template: "/templates/system/BASE-plan",
});

// Looks for what keeps people out. The policy of the pages forbids the script that looks, so this browser ignores the policy.
async function inspect(browser) {
  const { context, page, problems } = await openContext(browser, { bypassCSP: true });
  for (const [name, place] of Object.entries({ ...pages(), missing: "/runs/nothing" })) {
    await go(page, place);
    await page.waitForTimeout(100);
    await page.evaluate(axe);
    const found = await page.evaluate(async () => (await window.axe.run()).violations.filter((it) => ["serious", "critical"].includes(it.impact)));
    found.forEach((it) => problems.push(`${name}: ${it.id}: ${it.nodes.map((node) => node.html).slice(0, 2).join(" | ")}`));
  }
  await context.close();
  return problems;
}

async function openFile(browser) {
  const { context, page, problems } = await openContext(browser, { offline: true });
  await page.goto(`file://${FILE}`);
  for (const pane of ["prompt", "change", "checks", "log", "reply"]) {
    await page.locator(`#tab-${pane}`).click();
    assert.ok(await page.locator(`#${pane}`).isVisible(), pane);
  }
  await page.locator("#tab-log").click();
  await page.locator("[data-log-search]").fill("line 2999");
  await page.locator("[data-log-search]").press("Enter");
  await until(page, "#log-lines .found", "line 2999");
  assert.equal(await page.locator("form[method=post]").count(), 0, "a file has no actions");
  await page.goto(`file://${FLOW_FILE}`);
  await page.locator("#graph svg .node.current").first().waitFor();
  assert.equal(await page.locator("form[method=post]").count(), 0, "a file has no actions");
  await context.close();
  return problems;
}

async function shoot(browser) {
  for (const colorScheme of ["light", "dark"]) for (const width of [1440, 420]) {
    const { context, page } = await openContext(browser, { colorScheme, viewport: { width, height: width === 420 ? 800 : 900 } });
    for (const [name, place] of Object.entries(pages())) {
      await go(page, place);
      await page.waitForTimeout(300);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(wide <= width, `${name} is ${wide} wide at ${width}`);
      if (SHOTS) await page.screenshot({ path: path.join(SHOTS, `${name}-${width}-${colorScheme}.png`) });
    }
    await context.close();
  }
}

(async () => {
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: process.getuid() === 0 ? ["--no-sandbox"] : [] });
  const problems = [];
  try {
    const { context, page, problems: seen } = await openContext(browser);
    for (const [name, journey] of Object.entries(journeys)) {
      try {
        await journey(page);
      } catch (error) {
        throw new Error(`${name} at ${page.url()}: ${error.stack}`);
      }
      done.push(name);
    }
    // Refusals of the replayed action are part of its journey.
    problems.push(...seen);
    await context.close();
    problems.push(...await inspect(browser), ...await openFile(browser));
    await shoot(browser);
  } finally {
    await browser.close();
  }
  console.log(JSON.stringify({ done, requests: [...requests], problems, facts }));
})().catch((error) => { console.error(error); process.exit(1); });
