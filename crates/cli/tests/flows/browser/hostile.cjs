"use strict";
// Opens every page of ledgers whose texts are naughty strings. Prints one JSON object at its end.
const assert = require("node:assert/strict");
const fs = require("node:fs");
const path = require("node:path");
const { chromium } = require("playwright-core");

const { CHROMIUM, OWN, RUN, WEB, STRINGS, ADDRESSES } = process.env;
const strings = JSON.parse(fs.readFileSync(STRINGS, "utf8"));
const problems = [];
let pages = 0;

// The elements and attributes of our templates and scripts: a page has no others.
function readMarkup() {
  const folder = path.join(WEB, "templates");
  const source = fs.readdirSync(folder).map((name) => fs.readFileSync(path.join(folder, name), "utf8")).join("\n");
  const script = fs.readdirSync(path.join(WEB, "assets")).map((name) => fs.readFileSync(path.join(WEB, "assets", name), "utf8")).join("\n");
  const tags = new Set(Array.from(source.matchAll(/<([a-z][\w-]*)/gi), (it) => it[1].toLowerCase()));
  const names = new Set(Array.from(source.matchAll(/[\s}]([a-z][\w-]*)(?==")/gi), (it) => it[1].toLowerCase()));
  for (const it of source.matchAll(/\b(hidden|open|disabled|selected|checked|defer|data-[\w-]+)\b/g)) names.add(it[1]);
  for (const it of script.matchAll(/setAttribute\("([\w-]+)"/g)) names.add(it[1]);
  return { tags: [...tags, "html", "head", "body", "tbody"], names: [...names, "tabindex", "class"] };
}
const markup = readMarkup();

// Runs in the browser: lists what is not of our templates.
function inspectPage({ tags, names }) {
  window.inspectDocument = (doc) => {
    const found = [];
    for (const node of doc.querySelectorAll("*")) {
      const tag = node.tagName.toLowerCase();
      if (!tags.includes(tag)) found.push(`<${tag}>`);
      for (const { name, value } of node.attributes) {
        if (!names.includes(name.toLowerCase()) || name.startsWith("on") || name === "style") found.push(`<${tag} ${name}>`);
        if (["href", "src", "action", "formaction", "xlink:href"].includes(name) && !/^(\/(?![/\\])|#|data:,$)/.test(value)) found.push(`<${tag} ${name}="${value}">`);
      }
    }
    if (doc.querySelectorAll("script").length > 1 || doc.querySelectorAll("style, iframe, object, embed, img, base").length) found.push("foreign content");
    if (doc.querySelectorAll("main").length > 1) found.push("two main elements");
    if (window.pwned !== undefined) found.push("a script was executed");
    return found.slice(0, 5);
  };
  return window.inspectDocument(document);
}

async function inspect(page, place) {
  pages += 1;
  const found = await page.evaluate(inspectPage, markup);
  if (found.length) problems.push(`${place}: ${found.join(" ")}`);
}

// Reads answers without opening them, and looks at each.
async function inspectAnswers(page, places, statuses = [200, 400, 404]) {
  pages += places.length;
  await page.evaluate(inspectPage, markup);
  const found = await page.evaluate(async ({ all, statuses }) => {
    const read = async (place) => {
      const answer = await fetch(place, { headers: { accept: "text/html" } });
      const type = answer.headers.get("content-type") ?? "";
      if (type.startsWith("text/event-stream")) { answer.body.cancel(); return []; }
      const wrong = window.inspectDocument(new DOMParser().parseFromString(await answer.text(), "text/html"));
      if (!statuses.includes(answer.status) || !type.startsWith("text/html; charset=utf-8")) wrong.push(`${answer.status} ${type}`);
      return wrong.map((it) => `${place}: ${it}`);
    };
    const problems = [];
    while (all.length) problems.push(...(await Promise.all(all.splice(0, 6).map(read))).flat());
    return problems;
  }, { all: places, statuses });
  problems.push(...found);
}

async function openPage(browser, address) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
  context.setDefaultTimeout(30000);
  const page = await context.newPage();
  page.on("pageerror", (error) => problems.push(`${page.url()}: ${error.message}`));
  page.on("dialog", (dialog) => { problems.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on("console", (message) => {
    if (message.type() === "error" && !/status of (400|404)/.test(message.text())) problems.push(`${page.url()}: ${message.text()}`);
  });
  page.on("request", (request) => { if (new URL(request.url()).origin !== new URL(address).origin && !request.url().startsWith("data:")) problems.push(`request to ${request.url()}`); });
  await page.goto(address);
  return { context, page, origin: new URL(address).origin };
}

// Opens a page of each kind, and reads all others that links lead to.
async function visitLedger(browser, address) {
  const { context, page, origin } = await openPage(browser, address);
  const hrefs = () => page.locator("a[href^='/']").evaluateAll((all) => all.map((it) => it.getAttribute("href").split("#")[0]));
  const open = async (place) => {
    const answer = await page.goto(origin + place);
    if (answer.status() !== 200) problems.push(`${place}: ${answer.status()} ${(await page.locator("main").innerText()).slice(0, 400)}`);
    await inspect(page, place);
    return hrefs();
  };
  const runs = [...new Set((await open("/?limit=1000")).filter((it) => it.startsWith("/runs/")))];
  const flows = [...new Set((await open("/flows")).filter((it) => it.startsWith("/flows/")))];
  assert.ok(runs.length > 5 && flows.length > 1, `${runs} ${flows}`);
  await open("/costs");
  for (const flow of flows) await open(flow);
  const others = [];
  // The first run and the first one of a flow are opened with all their panes.
  for (const run of runs) {
    const isOpened = run === runs.at(-1) || run === runs[0];
    const links = isOpened ? await open(run) : [];
    others.push(...links.filter((it) => /\/source\?/.test(it)), ...(isOpened ? [] : [run]), `${run}/log`, `${run}/log?stream=stderr`);
    for (const pane of isOpened ? ["change", "checks", "log", "reply"] : []) await page.locator(`#tab-${pane}`).click();
  }
  others.push(...runs.map((run) => run.replace("/runs/", "/tasks/")));
  await inspectAnswers(page, others, [200]);
  await context.close();
  return runs.length;
}

// Addresses with each string, and what the server answers to them.
async function visitAddresses(page, origin) {
  await page.goto(origin);
  const ofWord = (word) => [
    `/runs/${word}`, `/tasks/${word}`, `/flows/${word}`, `/templates/${word}`, `/${word}`, `/costs?since=${word}`, `/events?since=${word}`,
    `/?grep=${word}&agent=${word}&outcome=${word}&since=${word}&flow=${word}&limit=${word}`,
    `/tasks/${RUN}?from=${word}&to=${word}`, `/runs/${RUN}/source?origin=${word}`, `/runs/${RUN}/log?from=${word}&stream=${word}`,
  ];
  await inspectAnswers(page, strings.flatMap((it) => ofWord(encodeURIComponent(it.toWellFormed ? it.toWellFormed() : it))));
}

// Templates with each string as a name.
async function visitTemplates(page, origin) {
  await page.goto(`${origin}/templates`);
  await inspect(page, "/templates");
  const links = await page.locator("#templates a.name").evaluateAll((all) => all.map((it) => it.getAttribute("href")));
  assert.ok(links.length > 300, `${links.length} templates`);
  await inspectAnswers(page, links);
  await page.goto(origin + links.find((it) => it.includes("script")));
  await inspect(page, "a template");
}

// Comments with each string as their text, path and quote.
async function sendComments(page, origin) {
  for (let at = 0; at < strings.length; at += 100) {
    await page.goto(`${origin}/runs/${RUN}`);
    const comments = strings.slice(at, at + 100).map((it, line) => ({ path: it, line: line + 1, removed: false, quote: it, text: it || "x" }));
    await page.evaluate((all) => {
      const form = document.querySelector("#tray");
      form.querySelector("[name=comments]").value = JSON.stringify(all);
      form.querySelector("textarea").value = all.map((it) => it.text).join("\n");
      form.submit();
    }, comments);
    await page.waitForURL(/\/actions\/continue\/preview/);
    await page.locator("#continue-prompt").waitFor();
    await inspect(page, "a continuation");
  }
}

(async () => {
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: process.getuid() === 0 ? ["--no-sandbox"] : [] });
  const visited = [];
  try {
    for (const address of JSON.parse(ADDRESSES)) visited.push(await visitLedger(browser, address));
    const { context, page, origin } = await openPage(browser, OWN);
    await sendComments(page, origin);
    await visitTemplates(page, origin);
    await visitAddresses(page, origin);
    await context.close();
  } finally {
    await browser.close();
  }
  console.log(JSON.stringify({ problems: problems.slice(0, 40), pages, visited }));
})().catch((error) => { console.error(error, problems.slice(0, 20)); process.exit(1); });
