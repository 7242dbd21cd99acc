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

  const act = (element) => {
    if (element.matches("textarea, input[type=search]")) element.focus();
    else element.click();
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

  const busy = () => paused || document.hidden || !getSelection().isCollapsed ||
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
