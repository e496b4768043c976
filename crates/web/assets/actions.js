"use strict";
/* Actions of pages: comments on lines that become one continuation, texts that a decision needs, and rows that a field filters. */
(() => {
  const { all, one, markRow } = window.callsheet;

  // ---- Comments on lines -----------------------------------------------------------------------------------------------
  const dialog = one("#comment");
  const tray = one("#tray");
  if (dialog && tray) {
    const key = `comments ${tray.dataset.run}`;
    const read = () => { try { return JSON.parse(sessionStorage.getItem(key)) ?? []; } catch { return []; } };
    const write = (comments) => { sessionStorage.setItem(key, JSON.stringify(comments)); show(); };
    let row = null;

    // A line of the change belongs to a file, a line of the prompt to none.
    const placeOf = (node) => {
      const file = node.closest("[data-path]");
      const pane = node.closest("[data-pane]");
      if (!pane || !["change", "prompt"].includes(pane.id) || (pane.id === "change" && !file)) return null;
      const [, side, line] = /([LO])(\d+)$/.exec(node.id) ?? [];
      if (!line) return null;
      const path = pane.id === "change" ? file.dataset.path : "";
      return { path, line: Number(line), removed: side === "O", quote: one("code", node)?.textContent ?? "" };
    };

    const isSame = (one, other) => ["path", "line", "removed"].every((key) => one[key] === other[key]);

    function show() {
      const comments = read();
      tray.hidden = comments.length === 0;
      one("[data-count]", tray).textContent = comments.length === 1 ? "1 comment" : `${comments.length} comments`;
      one("[name=comments]", tray).value = JSON.stringify(comments);
      const list = one("ol", tray);
      list.replaceChildren(...comments.map((comment, at) => {
        const item = document.createElement("li");
        const where = document.createElement("code");
        where.textContent = `${comment.path || "prompt"}:${comment.line}`;
        const text = document.createElement("span");
        text.textContent = ` ${comment.text} `;
        const gone = document.createElement("button");
        gone.type = "button";
        gone.className = "plain";
        gone.textContent = "remove";
        gone.addEventListener("click", () => write(read().filter((_, other) => other !== at)));
        item.append(where, text, gone);
        return item;
      }));
    }

    function comment(node) {
      const place = node && placeOf(node);
      if (!place) return;
      row = node;
      one("[data-place]", dialog).textContent = `${place.path || "prompt"}:${place.line}`;
      one("[data-quote]", dialog).textContent = place.quote;
      one("textarea", dialog).value = read().find((it) => isSame(it, place))?.text ?? "";
      dialog.showModal();
      one("textarea", dialog).focus();
    }

    dialog.addEventListener("close", () => {
      const text = one("textarea", dialog).value.trim();
      const place = row && placeOf(row);
      if (dialog.returnValue === "keep" && place) {
        const others = read().filter((it) => !isSame(it, place));
        write(text ? [...others, { ...place, text }] : others);
      }
      if (row) markRow(row);
      row = null;
    });
    document.addEventListener("keydown", (event) => {
      const isField = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
      if (event.key !== "c" || isField || event.ctrlKey || event.metaKey || event.altKey || dialog.open) return;
      const here = one("[data-pane].active .here");
      if (here) { event.preventDefault(); comment(here); }
    });
    document.addEventListener("dblclick", ({ target }) => comment(target.closest("[data-pane] .line[id]")));
    document.addEventListener("click", ({ target }) => {
      if (target.closest("[data-continue]")) { tray.hidden = false; one("[name=text]", tray).focus(); }
    });
    tray.addEventListener("submit", () => sessionStorage.setItem("sent", key));
    // Comments are no longer collected when the run that they started is shown.
    const sent = sessionStorage.getItem("sent");
    if (sent && sent !== key && one("#strip[data-after]")) {
      sessionStorage.removeItem(sent);
      sessionStorage.removeItem("sent");
    }
    show();
  }

  // ---- Decisions that need a text --------------------------------------------------------------------------------------
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-needs-text]");
    const field = button && one("textarea", button.form);
    if (field && !field.value.trim()) { event.preventDefault(); field.setAttribute("aria-invalid", "true"); field.focus(); }
  });

  // ---- Rows that a field filters ---------------------------------------------------------------------------------------
  all("[data-filter-rows]").forEach((form) => {
    form.addEventListener("submit", (event) => event.preventDefault());
    one("[data-filter]", form).addEventListener("input", ({ target }) => {
      const wanted = target.value.trim().toLowerCase();
      all("tbody [data-row]", document.getElementById(form.dataset.filterRows))
        .forEach((row) => { row.hidden = !row.textContent.toLowerCase().includes(wanted); });
    });
  });
})();
