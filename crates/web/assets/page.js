"use strict";
/* The script of all pages: keys, rows, live updates. It needs no library, makes no markup of text, and every page works without it. */
(() => {
  const all = (selector, top = document) => Array.from(top.querySelectorAll(selector));
  const one = (selector, top = document) => top.querySelector(selector);
  const modules = [];

  // ---- Rows and keys -------------------------------------------------------------------------------------------------
  const isShown = (node) => node.getClientRects().length > 0;
  const here = () => one(".here");

  function markRow(row, focus = true) {
    const before = here();
    if (before) before.classList.remove("here");
    if (!row) return;
    row.classList.add("here");
    row.scrollIntoView({ block: "nearest" });
    const link = focus && one("a[href], button", row);
    if (link) link.focus({ preventScroll: true });
    document.dispatchEvent(new CustomEvent("callsheet:row", { detail: row }));
  }

  function rowsInPlay() {
    const pane = one("[data-pane].active");
    const within = pane ? all("[data-row]", pane) : [];
    return (within.length ? within : all("[data-row]")).filter(isShown);
  }

  function moveRow(step) {
    const rows = rowsInPlay();
    if (!rows.length) return;
    const at = rows.indexOf(here());
    markRow(rows[at < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + step))]);
  }

  let prefix = null;
  const isField = (node) => node && (node.isContentEditable || /^(INPUT|SELECT|TEXTAREA)$/.test(node.tagName));

  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const help = one("#help");
    if (event.key === "Escape" && isField(event.target)) return event.target.blur();
    if (isField(event.target) || (help && help.open)) return;
    if (prefix === "g") {
      prefix = null;
      const link = one(`[data-go="${CSS.escape(event.key)}"]`);
      if (link) { event.preventDefault(); link.click(); }
      return;
    }
    const act = {
      j: () => moveRow(1),
      k: () => moveRow(-1),
      g: () => { prefix = "g"; setTimeout(() => { prefix = null; }, 1500); },
      "/": () => { const field = one("[data-pane].active [data-filter]") || one("[data-filter]"); if (field) { field.focus(); field.select(); } },
      o: () => { const gutter = here() && one("a.gutter, .gutter[data-at]", here()); if (gutter) openOrigin(gutter); return Boolean(gutter); },
      "?": () => help && help.showModal(),
      "[": () => modules.forEach((it) => it.movePane && it.movePane(-1)),
      "]": () => modules.forEach((it) => it.movePane && it.movePane(1)),
      Enter: () => {
        const row = here();
        const link = row && event.target === document.body && one("a[href]", row);
        if (link) link.click();
        return Boolean(link);
      },
    }[event.key];
    if (act && act() !== false) event.preventDefault();
  }

  document.addEventListener("keydown", onKey);
  document.addEventListener("focusin", (event) => {
    const row = event.target.closest("[data-row]");
    if (row && row !== here()) markRow(row, false);
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-open-help]")) one("#help").showModal();
  });

  // ---- Live ----------------------------------------------------------------------------------------------------------
  // One tab of a browser reads the stream and passes the events to the others, because a browser opens few connections to a server.
  const head = document.documentElement.dataset.head;
  let last = head === undefined ? null : { seq: Number(head), index: Infinity };
  const isNewer = (event) => event.seq > last.seq || (event.seq === last.seq && event.index > last.index);

  function showState(on) {
    const mark = one("#live");
    if (mark) { mark.dataset.state = on ? "on" : "off"; mark.textContent = on ? "live" : "offline"; }
  }

  function takeEvent(event) {
    if (!isNewer(event)) return;
    last = { seq: event.seq, index: event.index };
    document.dispatchEvent(new CustomEvent("callsheet:event", { detail: event }));
    scheduleRefresh(event);
  }

  function follow(channel, stopped) {
    const recent = [];
    // A position without an index is behind all events of the record.
    const since = last.index === Infinity ? `${last.seq}` : `${last.seq}.${last.index}`;
    const source = new EventSource(`/events?since=${since}`);
    const share = (message) => channel && channel.postMessage(message);
    source.onopen = () => { showState(true); share({ state: true }); };
    source.onerror = () => { showState(false); share({ state: false }); };
    source.onmessage = (message) => {
      const event = JSON.parse(message.data);
      recent.push(event);
      if (recent.length > 2000) recent.shift();
      takeEvent(event);
      share({ event });
    };
    if (channel) channel.addEventListener("message", ({ data }) => {
      // A tab that has just been opened asks for the events that it has missed.
      if (data.ask === undefined) return;
      share({ state: source.readyState === 1 });
      recent.filter((event) => event.seq > data.ask).forEach((event) => share({ event }));
    });
    addEventListener("pagehide", () => { source.close(); stopped(); });
  }

  if (last) {
    if (navigator.locks && window.BroadcastChannel) {
      const channel = new BroadcastChannel("callsheet");
      channel.addEventListener("message", ({ data }) => {
        if (data.event) takeEvent(data.event);
        if (data.state !== undefined) showState(data.state);
      });
      channel.postMessage({ ask: last.seq });
      navigator.locks.request("callsheet", () => new Promise((stopped) => follow(channel, stopped)));
    } else {
      follow(null, () => {});
    }
  }

  // The parts of a page that change are marked; the page is read again, and they are replaced.
  let timer = null;
  let busy = false;
  const relevant = (event) => {
    const run = document.documentElement.dataset.run || one("[data-run-id]")?.dataset.runId;
    return !run || event.run === run || event.flow !== null;
  };

  function scheduleRefresh(event) {
    if (!one("[data-live]") || timer || (event && !relevant(event))) return;
    timer = setTimeout(() => { timer = null; refresh(); }, document.hidden ? 5000 : 500);
  }

  // A tab that is looked at again does not wait.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden || !timer) return;
    clearTimeout(timer);
    timer = null;
    refresh();
  });

  async function refresh() {
    if (busy) return scheduleRefresh();
    busy = true;
    try {
      const answer = await fetch(location.href.split("#")[0], { headers: { accept: "text/html" } });
      if (!answer.ok) return;
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      all("[data-live]").forEach((node) => replacePart(node, fresh.getElementById(node.id)));
    } catch {
      showState(false);
    } finally {
      busy = false;
    }
  }

  const keyOf = (row) => row && (row.id || row.dataset.run || one("a[href]", row)?.getAttribute("href"));

  // Every page has a new id for its next action, which is no difference for a person.
  const actionIds = (part) => all("input[name=action_id]", part);
  const withoutIds = (part) => part.innerHTML.replace(/(name="action_id" value=")[^"]*/g, "$1");

  function replacePart(node, fresh) {
    if (!fresh) return;
    if (withoutIds(node) === withoutIds(fresh)) {
      const ids = actionIds(fresh);
      actionIds(node).forEach((it, at) => { it.value = ids[at].value; it.defaultValue = ids[at].value; });
      return;
    }
    // A person who types is not interrupted, and keeps a typed text.
    if (isField(document.activeElement) && node.contains(document.activeElement)) return;
    if (all("textarea", node).some((it) => it.value !== it.defaultValue)) return;
    const button = node.contains(document.activeElement) ? document.activeElement.closest("button") : null;
    const buttonKey = (it) => `${it.form?.getAttribute("action")} ${it.value} ${it.textContent}`;
    const open = new Set(all("details[open]", node).map((it) => it.id));
    const focused = node.contains(document.activeElement) ? keyOf(document.activeElement.closest("[data-row]")) : null;
    const marked = node.contains(here()) ? keyOf(here()) : null;
    const next = document.importNode(fresh, true);
    all("details[id]", next).forEach((it) => { if (open.has(it.id)) it.open = true; });
    node.replaceWith(next);
    const row = all("[data-row]", next).find((it) => keyOf(it) === (marked ?? focused));
    if (row) markRow(row, focused !== null);
    const again = button && all("button", next).find((it) => buttonKey(it) === buttonKey(button));
    if (again) again.focus({ preventScroll: true });
    document.dispatchEvent(new CustomEvent("callsheet:part", { detail: next }));
  }

  // ---- Times of runs in progress ---------------------------------------------------------------------------------------
  const span = (seconds) => seconds < 60 ? `${seconds} s`
    : seconds < 3600 ? `${Math.floor(seconds / 60)} min ${seconds % 60} s`
    : `${Math.floor(seconds / 3600)} h ${Math.floor(seconds / 60) % 60} min`;
  const tick = () => all("time[data-since]").forEach((node) => {
    const seconds = Math.max(0, Math.floor((Date.now() - Date.parse(node.dataset.since)) / 1000));
    if (!Number.isNaN(seconds)) node.textContent = span(seconds);
  });
  tick();
  setInterval(tick, 1000);

  // ---- Panes of a run --------------------------------------------------------------------------------------------------
  const panes = () => all("[data-pane]");

  function showPane(name, focus = false) {
    const pane = panes().find((it) => it.id === name);
    if (!pane) return false;
    panes().forEach((it) => it.classList.toggle("active", it === pane));
    all("[data-tab]").forEach((tab) => {
      const isHere = tab.dataset.tab === name;
      tab.setAttribute("aria-selected", String(isHere));
      tab.tabIndex = isHere ? 0 : -1;
      if (isHere && focus) tab.focus();
    });
    return true;
  }

  function movePane(step) {
    const names = panes().map((it) => it.id);
    const at = names.findIndex((name) => document.getElementById(name).classList.contains("active"));
    if (!names.length) return;
    const name = names[(at + step + names.length) % names.length];
    showPane(name);
    history.replaceState(null, "", `#${name}`);
  }

  // An address such as #prompt-L120 names a pane and a line in it.
  async function followHash() {
    let id;
    try { id = decodeURIComponent(location.hash.slice(1)); } catch { return; }
    if (!id) return;
    const pane = id.split("-")[0];
    if (!showPane(pane)) return;
    const line = /^log-L(\d+)$/.exec(id);
    if (line && line[1].length < 10 && !document.getElementById(id)) await loadLog(Number(line[1]));
    const node = document.getElementById(id);
    // The facts above the panes stay visible.
    if (node?.matches("[data-pane]")) return scrollTo(0, 0);
    if (!node) return;
    for (let it = node.closest("details"); it; it = it.parentElement.closest("details")) it.open = true;
    unfold(node);
    node.scrollIntoView({ block: "center" });
    if (node.matches("[data-row]")) markRow(node, false);
  }

  if (panes().length) {
    document.documentElement.classList.add("js");
    const tabs = one("[role=tablist]");
    tabs.hidden = false;
    panes().forEach((pane) => { pane.setAttribute("role", "tabpanel"); pane.setAttribute("aria-labelledby", `tab-${pane.id}`); });
    tabs.addEventListener("click", ({ target }) => {
      const tab = target.closest("[data-tab]");
      if (tab) { showPane(tab.dataset.tab); history.replaceState(null, "", `#${tab.dataset.tab}`); }
    });
    tabs.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step) return;
      event.preventDefault();
      movePane(step);
      one("[data-tab][aria-selected=true]").focus();
    });
    modules.push({ movePane });
    // A part that was replaced keeps its place among the panes.
    document.addEventListener("callsheet:part", ({ detail }) => {
      if (detail.matches("[data-pane]")) showPane(one("[data-tab][aria-selected=true]").dataset.tab);
    });
    showPane("prompt");
    addEventListener("hashchange", followHash);
  }

  // Panes in step: a row of the log marks its tool call in the timeline, and a row of another pane its records.
  document.addEventListener("callsheet:row", ({ detail: row }) => {
    const pane = row.closest("[data-pane]");
    if (!pane) return;
    all("#timeline .step").forEach((it) => it.classList.remove("step"));
    const line = Number(row.dataset.line || 0);
    const calls = all(".calls [data-line]").filter((it) => Number(it.dataset.line) <= line);
    const near = (pane.id === "log" && calls.pop()) || one(`#timeline [data-to="${pane.id}"]`);
    if (near) { near.classList.add("step"); near.scrollIntoView({ block: "nearest" }); }
  });

  // ---- Prompt ------------------------------------------------------------------------------------------------------------
  let lit = null;
  function light(origin) {
    if (origin === lit) return;
    lit = origin;
    all(".lit").forEach((it) => it.classList.remove("lit"));
    if (origin !== null) all(`#prompt [data-o="${CSS.escape(origin)}"]`).forEach((it) => it.classList.add("lit"));
  }
  // A line leads to its origin at that place.
  function openOrigin(gutter) {
    if (gutter.href) return gutter.click();
    const { origin, at } = gutter.dataset;
    location.href = `${one("[data-source]").dataset.source}?origin=${origin}&line=${at}#L${at}`;
  }
  // The origins of a marked line, each with its version and a way to its text.
  function showOrigins(row, first) {
    const bar = one("#origin-bar");
    const gutter = one(".gutter[data-origin]", row);
    const numbers = [first, gutter?.dataset.origin, ...all("[data-o]", row).map((it) => it.dataset.o)].filter((it) => it !== undefined && it !== null);
    bar.replaceChildren(...Array.from(new Set(numbers), (number) => {
      const known = one(`#origins [data-origin="${CSS.escape(number)}"]`);
      const served = head !== undefined;
      const item = document.createElement(served ? "a" : "span");
      item.textContent = `${one("a", known).textContent} ${one("code", known).textContent}`;
      item.className = one(".trust", known).className;
      const at = number === gutter?.dataset.origin ? gutter.dataset.at ?? new URL(gutter.href, location.href).searchParams.get("line") : null;
      if (served) item.href = `${one("[data-source]").dataset.source}?origin=${number}${Number(at) > 0 ? `&line=${at}#L${at}` : ""}`;
      return item;
    }));
    bar.hidden = numbers.length === 0;
    light(numbers[0] ?? null);
  }
  const originOf = (node) => node.closest?.("[data-origin]")?.dataset.origin ?? null;
  const prompt = one("#prompt");
  if (prompt) {
    prompt.addEventListener("pointerover", ({ target }) => { const origin = originOf(target); if (origin !== null) light(origin); });
    prompt.addEventListener("focusin", ({ target }) => { const origin = originOf(target); if (origin !== null) light(origin); });
    prompt.addEventListener("pointerleave", () => light(null));
    document.addEventListener("callsheet:row", ({ detail }) => { if (prompt.contains(detail) && detail.matches(".line")) showOrigins(detail); });
    prompt.addEventListener("click", ({ target }) => {
      const line = target.closest(".line");
      if (line && !target.closest("a") && !String(getSelection())) {
        markRow(line, false);
        showOrigins(line, target.closest("[data-o]")?.dataset.o);
      }
      const gutter = target.closest(".gutter[data-at]");
      if (gutter) openOrigin(gutter);
      const fold = target.closest("[data-fold]");
      if (fold) all("details.section", prompt).forEach((it) => { it.open = fold.dataset.fold === "open"; });
    });
  }

  // ---- Log -----------------------------------------------------------------------------------------------------------------
  const logPane = one("[data-log]");
  const logBox = one("#log-lines");
  const served = logPane && location.protocol !== "file:" && head !== undefined;
  const STEP = 200;
  const MOST = 2000;
  const ranges = () => all(".log-range", logBox);
  const stream = () => one("[data-log-stream]")?.value ?? "stdout";
  let loading = false;

  // Asks for data of the log. A failure is shown beside the search, and the answer is null.
  async function askServer(address, read) {
    const state = one("[data-log-found]");
    try {
      const answer = await fetch(address, { headers: { accept: "application/json" } });
      if (answer.ok) return await read(answer);
      const { errors } = await answer.json();
      state.textContent = errors.map((it) => it.message).join("; ");
    } catch {
      state.textContent = "the server does not answer";
    }
    return null;
  }

  async function fetchRange(from, count = STEP) {
    const query = new URLSearchParams({ stream: stream(), from, count });
    const text = await askServer(`${logPane.dataset.log}?${query}`, (it) => it.text());
    if (text === null) return null;
    const fresh = new DOMParser().parseFromString(text, "text/html");
    return foldRange(document.importNode(one(".log-range", fresh), true));
  }

  // Replaces the shown lines by those around one.
  async function loadLog(line) {
    if (!served) return;
    const range = await fetchRange(Math.max(1, line - STEP / 2));
    if (!range) return;
    logBox.replaceChildren(range);
    markFound();
  }

  async function extendLog(after) {
    const edge = after ? ranges().pop() : ranges()[0];
    if (loading || !edge || !served) return;
    const [first, last, total] = ["first", "last", "total"].map((name) => Number(edge.dataset[name]));
    if (after ? last >= total : first <= 1) return;
    loading = true;
    try {
      const from = after ? last + 1 : Math.max(1, first - STEP);
      const range = await fetchRange(from, after ? STEP : first - from);
      if (!range) return;
      const height = logBox.scrollHeight;
      if (after) logBox.append(range); else logBox.prepend(range);
      if (!after) logBox.scrollTop += logBox.scrollHeight - height;
      trimLog(after);
      markFound();
    } finally {
      loading = false;
    }
  }

  // A log of a million lines is never in the page as a whole.
  function trimLog(after) {
    while (all("[data-line]", logBox).length > MOST && ranges().length > 1) {
      const gone = after ? ranges()[0] : ranges().pop();
      const height = logBox.scrollHeight;
      gone.remove();
      if (after) logBox.scrollTop -= height - logBox.scrollHeight;
    }
  }

  let found = [];
  function markFound() {
    all(".found", logBox).forEach((it) => it.classList.remove("found"));
    found.forEach((line) => document.getElementById(`log-L${line}`)?.classList.add("found"));
  }

  function unfold(row) {
    let call = row.hidden ? row.previousElementSibling : null;
    while (call && !call.matches("[data-call]")) call = call.previousElementSibling;
    if (call) foldCall(call, false);
  }

  async function jumpTo(line) {
    const id = `log-L${line}`;
    if (!document.getElementById(id)) await loadLog(line);
    const row = document.getElementById(id);
    if (!row) return;
    unfold(row);
    history.replaceState(null, "", `#${id}`);
    row.scrollIntoView({ block: "center" });
    markRow(row);
  }

  async function findText(text) {
    const state = one("[data-log-found]");
    if (!text) { found = []; markFound(); state.textContent = ""; return; }
    let more = false;
    if (served) {
      const query = new URLSearchParams({ stream: stream(), text });
      const answer = await askServer(`${logPane.dataset.log}/find?${query}`, (it) => it.json());
      if (!answer) return;
      found = answer.lines;
      more = answer.has_more;
    } else {
      const wanted = text.toLowerCase();
      found = all("[data-line]", logBox).filter((it) => one("code", it).textContent.toLowerCase().includes(wanted)).map((it) => Number(it.dataset.line));
    }
    const at = Number(here()?.dataset.line ?? 0);
    const next = found.find((line) => line > at) ?? found[0];
    state.textContent = found.length ? `${found.indexOf(next) + 1} of ${found.length}${more ? "+" : ""} lines` : "not found";
    markFound();
    if (next !== undefined) await jumpTo(next);
  }

  // The lines of a tool call fold below its words.
  function foldCall(call, isFolded) {
    call.setAttribute("aria-expanded", String(!isFolded));
    for (let it = call.nextElementSibling; it && !it.matches("[data-call]"); it = it.nextElementSibling) it.hidden = isFolded;
  }
  const foldsAll = () => one("[data-log-fold]")?.getAttribute("aria-pressed") === "true";
  function foldRange(range) {
    if (foldsAll()) all("[data-call]", range).forEach((call) => foldCall(call, true));
    return range;
  }

  if (logPane) {
    logBox.addEventListener("click", ({ target }) => {
      const call = target.closest("[data-call]");
      const row = target.closest("[data-row]");
      if (call) foldCall(call, call.getAttribute("aria-expanded") === "true");
      else if (row) markRow(row, false);
    });
    one("[data-log-fold]")?.addEventListener("click", ({ target }) => {
      target.setAttribute("aria-pressed", String(!foldsAll()));
      target.textContent = foldsAll() ? "Unfold calls" : "Fold calls";
      all("[data-call]", logBox).forEach((call) => foldCall(call, foldsAll()));
    });
    const edge = () => ranges().pop()?.dataset ?? {};
    logBox.addEventListener("scroll", () => {
      if (logBox.scrollTop < 300) extendLog(false);
      if (logBox.scrollTop + logBox.clientHeight > logBox.scrollHeight - 300) extendLog(true);
    }, { passive: true });
    one("[data-log-tools]").addEventListener("submit", (event) => { event.preventDefault(); findText(one("[data-log-search]").value); });
    one("[data-log-error]").addEventListener("click", () => { const line = edge().firstError; if (line) jumpTo(Number(line)); });
    one("[data-log-start]")?.addEventListener("click", () => jumpTo(1));
    one("[data-log-end]")?.addEventListener("click", async () => { await loadLog(Number(edge().total)); logBox.scrollTop = logBox.scrollHeight; });
    one("[data-log-stream]")?.addEventListener("change", async () => { await loadLog(1); one("[data-log-error]").disabled = !edge().firstError; });
    // New lines of a run in progress appear at the end, if the end is shown.
    let pending = null;
    document.addEventListener("callsheet:event", ({ detail }) => {
      if (detail.run !== one("[data-run-id]")?.dataset.runId || detail.event !== "run.output" || pending) return;
      pending = setTimeout(async () => {
        pending = null;
        const last = ranges().pop();
        if (!last) return;
        const atEnd = logBox.scrollTop + logBox.clientHeight > logBox.scrollHeight - 40;
        const range = await fetchRange(Number(last.dataset.last) + 1);
        if (!range) return;
        ranges().forEach((it) => { it.dataset.total = range.dataset.total; if (range.dataset.firstError) it.dataset.firstError = range.dataset.firstError; });
        one("[data-log-error]").disabled = !edge().firstError;
        const count = one("#tab-log .number");
        if (count) count.textContent = range.dataset.total;
        if (!all("[data-line]", range).length) return;
        if (Number(range.dataset.first) !== Number(last.dataset.last) + 1 && Number(last.dataset.last) > 0) return;
        logBox.append(range);
        one("#log .empty")?.remove();
        trimLog(true);
        if (atEnd) logBox.scrollTop = logBox.scrollHeight;
      }, 300);
    });
    if (logPane.hasAttribute("data-follow")) logBox.scrollTop = logBox.scrollHeight;
  }

  followHash();
  window.callsheet = { all, one, markRow, modules };
})();
