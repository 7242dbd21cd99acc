/* Keys, and the overview fetching itself again. Every page works without this file. */
"use strict";
(() => {
  document.documentElement.classList.add("js");

  for (const form of document.querySelectorAll("form[data-auto]")) {
    form.addEventListener("change", (event) => {
      if (event.target.matches("select")) form.requestSubmit();
    });
    form.addEventListener("submit", () => {
      for (const field of form.elements) if (field.value === "") field.disabled = true; // short addresses
    });
  }
  addEventListener("pageshow", () => {
    for (const field of document.querySelectorAll("form[data-auto] :disabled")) field.disabled = false;
  });

  /* A link to a document opens its card. */
  const openTarget = () => {
    const target = location.hash && document.getElementById(location.hash.slice(1));
    if (target instanceof HTMLDetailsElement) target.open = true;
  };
  addEventListener("hashchange", openTarget);
  openTarget();

  /* Keys: an element says with data-key which key it answers to. */
  const help = document.getElementById("help");
  const pages = { o: "/", t: "/traces", r: "/review", d: "/candidates" };
  let going = false;

  const typing = (element) => element.matches("textarea, select, input:not([type=radio]):not([type=checkbox])");

  const moveRow = (step) => {
    const rows = [...document.querySelectorAll("[data-row]")];
    if (!rows.length) return false;
    const at = rows.indexOf(document.activeElement);
    rows[Math.min(rows.length - 1, Math.max(0, at + step))].focus();
    return true;
  };

  /* The claim after the one that has the focus; the arrow keys then choose its verdict. */
  const nextClaim = () => {
    const claims = [...document.querySelectorAll("[data-claim]")];
    if (!claims.length) return false;
    const at = claims.findIndex((claim) => claim.contains(document.activeElement));
    const claim = claims[(at + 1) % claims.length];
    (claim.querySelector("input:checked") ?? claim.querySelector("input")).focus();
    claim.closest("li")?.scrollIntoView({ block: "nearest" });
    return true;
  };

  /* Details that hold a form are opened to write in it. The event comes late: after a key the next one would be lost. */
  const beginToWrite = (details) => { if (details?.open) details.querySelector("input[type=text]").focus(); };
  for (const details of document.querySelectorAll("details[data-first-field]"))
    details.addEventListener("toggle", () => beginToWrite(details));

  const act = (element) => {
    if (element.matches("textarea, input[type=search]")) element.focus();
    else element.click();
    if (element.matches("summary")) beginToWrite(element.closest("details[data-first-field]"));
    return true;
  };

  const press = (key) => {
    if (going) {
      going = false;
      const link = pages[key] && [...document.querySelectorAll(".top nav a")].find((a) => new URL(a.href).pathname === pages[key]);
      return link ? act(link) : false;
    }
    if (key === "g") return (going = true);
    if (key === "?") return help.showModal(), true;
    const element = [...document.querySelectorAll("[data-key]")].find((e) => e.dataset.key === key && !e.disabled);
    if (element) return act(element);
    if (key === "v") return nextClaim();
    if (key === "j" || key === "k") return moveRow(key === "j" ? 1 : -1);
    return false;
  };

  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
    const active = document.activeElement ?? document.body;
    if (event.key === "Escape" && typing(active)) return active.blur();
    if (!typing(active) && press(event.key)) event.preventDefault();
  });
  for (const button of document.querySelectorAll("[data-help]")) button.addEventListener("click", () => help.showModal());

  /* Expected evidence: the selected words of a document, as offsets in code points of its own text. A box that stands
     for a character that would deceive counts as that one character, and is sent as it. */
  const picked = document.getElementById("picked");
  const field = document.getElementById("evidence");
  const pieces = field ? JSON.parse(field.value) : [];

  const ownText = (root, node, offset) => {
    const range = document.createRange();
    range.setStart(root, 0);
    range.setEnd(node, offset);
    const copy = range.cloneContents();
    for (const box of copy.querySelectorAll(".ctrl")) box.textContent = String.fromCodePoint(parseInt(box.title.slice(2), 16));
    return [...copy.textContent];
  };
  const shown = (text) => text.replace(/[\p{Cc}\p{Cf}]/gu, (c) => `[U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}]`);
  const whole = (node) => (node.nodeType === Node.TEXT_NODE ? node.parentElement : node)?.closest("[data-document]");

  const take = () => {
    const selection = getSelection();
    if (!selection.rangeCount || selection.isCollapsed) return "Select words in a document first.";
    const range = selection.getRangeAt(0);
    const root = whole(range.startContainer);
    if (!root || root !== whole(range.endContainer)) return "Select inside the text of one document.";
    const before = ownText(root, range.startContainer, range.startOffset);
    const upto = ownText(root, range.endContainer, range.endOffset);
    let start = before.length, end = upto.length;
    while (start < end && !upto[start].trim()) start += 1;
    while (end > start && !upto[end - 1].trim()) end -= 1;
    if (start === end) return "Only blanks are selected.";
    const piece = { document: root.dataset.document, start, end, quote: upto.slice(start, end).join("") };
    if (!pieces.some((p) => p.document === piece.document && p.start === start && p.end === end)) pieces.push(piece);
    selection.removeAllRanges();
    list();
    return "";
  };

  const list = () => {
    field.value = JSON.stringify(pieces);
    picked.replaceChildren(...pieces.map((piece, index) => {
      const line = document.createElement("li"), words = document.createElement("mark"), away = document.createElement("button");
      words.className = "quote";
      words.dir = "auto";
      words.textContent = shown(piece.quote);
      away.type = "button";
      away.className = "quiet";
      away.textContent = "remove";
      away.setAttribute("aria-label", `remove passage ${index + 1}`);
      away.addEventListener("click", () => { pieces.splice(index, 1); list(); });
      line.append(words, " ", away);
      return line;
    }));
  };
  if (field) {
    list();
    const say = document.getElementById("pick-trouble");
    document.getElementById("pick").addEventListener("click", () => { say.textContent = take(); });
    document.getElementById("pick").addEventListener("mousedown", (event) => event.preventDefault()); // keep the selection
  }

  /* A stretch of the chart, picked by dragging or one click, opens the worst traces of that time. By keyboard the table
     below does. Bound to the page: the chart is put in place anew. */
  let brush = null;
  const stepAt = (event) => document.elementFromPoint(event.clientX, event.clientY)?.closest(".hover[data-since]");
  const marked = () => {
    const steps = [...brush.chart.querySelectorAll(".hover[data-since]")];
    const [from, to] = [steps.indexOf(brush.from), steps.indexOf(brush.to)].sort((a, b) => a - b);
    for (const [at, step] of steps.entries()) step.classList.toggle("brushed", at >= from && at <= to);
    return steps.slice(from, to + 1);
  };
  const letGo = () => {
    for (const step of document.querySelectorAll(".brushed")) step.classList.remove("brushed");
    brush = null;
  };
  addEventListener("pointerdown", (event) => {
    const step = event.button === 0 && event.target.closest?.(".hover[data-since]");
    if (!step) return;
    event.preventDefault(); // no text is selected
    brush = { chart: step.ownerSVGElement, from: step, to: step };
    marked();
  });
  addEventListener("pointermove", (event) => {
    const step = brush && stepAt(event);
    if (!step || step.ownerSVGElement !== brush.chart) return;
    brush.to = step;
    marked();
  });
  addEventListener("pointerup", () => {
    if (!brush) return;
    const steps = marked(), worst = new URL(brush.chart.dataset.worst, location.href);
    worst.searchParams.set("since", steps[0].dataset.since);
    worst.searchParams.set("until", steps.at(-1).dataset.until);
    letGo();
    location.assign(worst);
  });
  addEventListener("pointercancel", letGo);
  addEventListener("keydown", (event) => { if (event.key === "Escape" && brush) letGo(); });

  /* Refresh: the same address again, its #live part put in place of ours. */
  const every = Number(document.body.dataset.refresh) * 1000;
  const freshness = document.getElementById("freshness");
  const pause = document.querySelector("[data-pause]");
  if (!every || !document.getElementById("live")) return;
  let paused = false;
  const say = (text) => { if (freshness.textContent !== text) freshness.textContent = text; };
  const time = () => `${new Date().toISOString().slice(11, 19)} UTC`;
  let last = time();
  say(`As of ${last}`);

  const busy = () => paused || brush || document.hidden || !getSelection().isCollapsed ||
    document.getElementById("live").contains(document.activeElement);

  const replace = (text) => {
    const next = new DOMParser().parseFromString(text, "text/html");
    const live = document.getElementById("live");
    const open = [...live.querySelectorAll("details[open][id]")].map((d) => d.id);
    const fresh = next.getElementById("live");
    if (!fresh) return location.reload();
    if (next.querySelector("form.controls") && !document.querySelector("form.controls")) return location.reload();
    live.replaceWith(document.adoptNode(fresh));
    for (const id of open) document.getElementById(id)?.setAttribute("open", "");
    const count = next.getElementById("nav-review"), shown = document.getElementById("nav-review");
    if (count && shown) shown.textContent = count.textContent;
    last = time();
    say(`As of ${last}`);
  };

  const refresh = async () => {
    if (busy()) return;
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" } });
      if (!answer.ok) throw new Error(String(answer.status));
      const text = await answer.text();
      if (!busy()) replace(text); // paused, or begun to read, while it was under way
    } catch {
      if (!paused) say(`Not refreshed since ${last}: the console does not answer`);
    }
  };
  setInterval(refresh, every);
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    say(paused ? `Paused at ${last}` : `As of ${last}`);
  });
})();
