// Refreshes the page in place, filters rows, shows times in the reader's zone. Every page works without it.

const POLL_MS = 10_000, HIDDEN_MS = 60_000, REFETCH_MS = 60_000, LOST_MS = 60_000, FETCH_MS = 15_000;
const root = new URL("../", import.meta.url);
const html = document.documentElement;
const policy = window.trustedTypes
  ? trustedTypes.createPolicy("checkvisor", { createHTML: (text) => text })
  : { createHTML: (text) => text };

let ahead = 0; // our clock minus the server's
let summaryTag = "", lastGood = Date.now(), lastPage = Date.now(), failures = 0, timer = 0, busy = false;
let served = new Map(); // id -> the HTML as the server sent it, before times were rewritten

// --- times -----------------------------------------------------------------------------------------------------------

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
const full = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: "always", style: "short" });

const now = () => Date.now() - ahead;

function ago(ms) {
  const seconds = Math.max(0, Math.round((now() - ms) / 1000));
  if (seconds < 90) return relative.format(-seconds, "second");
  if (seconds < 5400) return relative.format(-Math.round(seconds / 60), "minute");
  if (seconds < 129600) return relative.format(-Math.round(seconds / 3600), "hour");
  return relative.format(-Math.round(seconds / 86400), "day");
}

// A <time> without an attribute holds "20:31:12": the latest such moment in UTC that is not in the future.
function momentOf(element) {
  const given = element.getAttribute("datetime");
  if (given) return Date.parse(given);
  const found = /^(\d\d):(\d\d):(\d\d)$/.exec(element.textContent);
  if (!found) return NaN;
  const today = new Date(now());
  const at = Date.UTC(today.getUTCFullYear(), today.getUTCMonth(), today.getUTCDate(), +found[1], +found[2], +found[3]);
  return at > now() + 60_000 ? at - 86_400_000 : at;
}

function localise(within) {
  for (const element of within.querySelectorAll("time:not([data-at])")) {
    const at = momentOf(element);
    if (Number.isNaN(at)) continue;
    element.dataset.at = String(at);
    const today = Math.abs(now() - at) < 43_200_000;
    const short = !element.hasAttribute("datetime") || element.dataset.f === "clock";
    element.title = full.format(at);
    if (element.dataset.f === "ago") element.textContent = ago(at);
    else if (short && today) element.textContent = clock.format(at);
    else element.textContent = full.format(at);
  }
  for (const element of within.querySelectorAll("[data-zone]")) element.textContent = `Times are in ${zone}.`;
}

function tick() {
  for (const element of document.querySelectorAll('time[data-f="ago"]')) element.textContent = ago(+element.dataset.at);
}

// --- refreshing ------------------------------------------------------------------------------------------------------

async function get(address, headers = {}) {
  const response = await fetch(address, { headers, cache: "no-store", credentials: "omit", redirect: "error", signal: AbortSignal.timeout(FETCH_MS) });
  const date = Date.parse(response.headers.get("Date") || "");
  if (!Number.isNaN(date)) ahead = Date.now() - date;
  return response;
}

class Refused extends Error {
  constructor(status) {
    super(`status ${status}`);
    this.status = status;
  }
}

async function poll() {
  clearTimeout(timer);
  if (busy) return;
  busy = true;
  try {
    const response = await get(new URL("api/v1/summary", root), summaryTag ? { "If-None-Match": summaryTag } : {});
    if (response.status !== 304 && !response.ok) throw new Refused(response.status);
    const tag = response.headers.get("ETag") || "";
    const changed = response.status !== 304 && tag !== summaryTag;
    if ((changed && summaryTag) || Date.now() - lastPage > REFETCH_MS || html.dataset.lost || !document.getElementById("hero")) await refresh();
    else fresh(now());
    summaryTag = tag || summaryTag;
    if (failures) notice("");
    failures = 0;
    lastGood = Date.now();
    delete html.dataset.lost;
  } catch (error) {
    failures += 1;
    lost(error);
  } finally {
    busy = false;
    const base = document.hidden ? HIDDEN_MS : POLL_MS;
    timer = setTimeout(poll, Math.min(HIDDEN_MS, base * 2 ** Math.min(failures, 3)));
  }
}

async function refresh() {
  const response = await get(location.href.split("#")[0]);
  if (!response.ok) throw new Refused(response.status);
  const fetched = new DOMParser().parseFromString(policy.createHTML(await response.text()), "text/html");
  swap(fetched);
  lastPage = Date.now();
}

function fresh(at) {
  const element = document.querySelector("#asof time");
  if (!element) return;
  element.dataset.at = String(at);
  element.textContent = ago(at);
}

// The rows of a group are compared one by one, every other live section as a whole.
function swap(fetched) {
  const next = remember(fetched);
  document.title = fetched.title;
  html.dataset.overall = fetched.documentElement.dataset.overall;
  document.body.classList.toggle("stale", fetched.body.classList.contains("stale"));
  document.getElementById("icon").href = fetched.getElementById("icon").href;
  const main = document.getElementById("main");
  const ids = (from) => [...from.querySelectorAll("main [data-live]")].map((element) => element.id).join();
  if (ids(document) !== ids(fetched) || groupsOf(document) !== groupsOf(fetched)) {
    const open = opened(), kept = filterState();
    main.replaceChildren(...document.importNode(fetched.getElementById("main"), true).childNodes);
    reopen(open);
    localise(main);
    restoreFilter(kept);
    wireFilter();
  } else {
    const rows = rowsOf(document), fetchedRows = rowsOf(fetched);
    for (const [id, text] of next) {
      if (served.get(id) === text) continue;
      if (rows.has(id)) replace(rows.get(id), fetchedRows.get(id));
      else replace(document.getElementById(id), fetched.getElementById(id));
    }
  }
  for (const id of ["asof", "foot"]) replace(document.getElementById(id), fetched.getElementById(id));
  served = next;
  applyFilter();
}

// Rows have no id (a thousand of them would cost four kilobytes): their link names them.
const rowsOf = (from) => new Map([...from.querySelectorAll("#groups tbody tr")].map((row) => [row.querySelector("a").getAttribute("href"), row]));

function replace(old, found) {
  if (!old || !found) return;
  const focused = old.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  const copy = document.importNode(found, true);
  const open = opened(old);
  old.replaceWith(copy);
  reopen(open, copy);
  localise(copy);
  if (focused) copy.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
}

// What can be swapped alone: live sections (the table by rows and summaries), as the server sent them.
function remember(from) {
  const found = new Map();
  for (const element of from.querySelectorAll("main [data-live]")) {
    if (element.id === "groups") {
      for (const [name, row] of rowsOf(from)) found.set(name, row.outerHTML);
      for (const head of element.querySelectorAll("summary")) found.set(head.id, head.outerHTML);
    } else found.set(element.id, element.outerHTML);
  }
  return found;
}

const groupsOf = (from) => [...from.querySelectorAll("#groups details")].map((group) => group.id).join() + [...rowsOf(from).keys()].join();
const opened = (within = document.getElementById("main")) => [...within.querySelectorAll("details")].map((element) => element.open);
function reopen(open, within = document.getElementById("main")) {
  const all = [...within.querySelectorAll("details")];
  if (all.length === open.length) all.forEach((element, index) => { element.open = open[index]; });
}

// --- when nothing comes ----------------------------------------------------------------------------------------------

function notice(text) {
  const place = document.getElementById("notice");
  if (place.dataset.text === text) return;
  place.dataset.text = text;
  place.replaceChildren();
  if (!text) return;
  const box = document.createElement("p");
  box.className = "banner";
  box.textContent = text;
  place.append(box);
}

function whyLost(error) {
  if (!navigator.onLine) return "This browser is offline.";
  return error instanceof Refused && error.status === 503 ? "The status page can't read its database." : "The status page's server does not answer.";
}

function lost(error) {
  if (error instanceof Refused && error.status === 503 && !document.querySelector("[data-live]")) return; // it says so itself
  notice(`${whyLost(error)} What is shown is from ${full.format(lastGood - ahead)}.`);
  document.getElementById("asof").dataset.stale = "";
  if (Date.now() - lastGood < LOST_MS && navigator.onLine) return;
  html.dataset.lost = "1";
  document.body.classList.add("stale");
  document.getElementById("icon").href = new URL("static/icon-unknown.svg", root).href;
  if (!document.title.startsWith("? ")) document.title = `? ${document.title}`;
  const head = document.getElementById("headline");
  if (head && document.getElementById("groups")) head.textContent = "State unknown";
}

// --- the filter ------------------------------------------------------------------------------------------------------

const GOOD = ["s-up", "s-paused", "s-maintenance", "s-pending"];

function applyFilter() {
  const box = document.getElementById("q"), only = document.getElementById("only"), groups = document.getElementById("groups");
  if (!box || !groups) return;
  const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
  const active = words.length > 0 || only.checked;
  let shown = 0;
  for (const group of groups.querySelectorAll("details.group")) {
    const name = group.querySelector(".name").textContent.toLowerCase();
    let here = 0;
    for (const row of group.querySelectorAll("tbody tr")) {
      const text = `${row.textContent} ${row.querySelector("a").getAttribute("href")} ${name}`.toLowerCase();
      const good = GOOD.some((each) => row.querySelector(".i").classList.contains(each));
      const keep = words.every((word) => text.includes(word)) && !(only.checked && good);
      row.hidden = !keep;
      if (keep) here += 1;
    }
    group.hidden = active && here === 0;
    if (active && !group.dataset.was) group.dataset.was = group.open ? "open" : "closed";
    if (active) group.open = here > 0;
    else if (group.dataset.was) { group.open = group.dataset.was === "open"; delete group.dataset.was; }
    shown += here;
  }
  document.getElementById("shown").textContent = active ? `${shown} shown` : "";
  document.getElementById("nohits").hidden = !active || shown > 0;
}

function filterState() {
  const box = document.getElementById("q"), only = document.getElementById("only");
  return box ? { text: box.value, only: only.checked, focus: document.activeElement === box } : null;
}

function restoreFilter(kept) {
  const box = document.getElementById("q");
  if (!kept || !box) return;
  box.value = kept.text;
  document.getElementById("only").checked = kept.only;
  if (kept.focus) box.focus();
}

function wireFilter() {
  const form = document.getElementById("filter");
  if (!form) return;
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", applyFilter);
  applyFilter();
}

// A filter in the address was applied by the server, for browsers without script: here all rows are wanted.
function takeOverFilter() {
  const asked = new URLSearchParams(location.search);
  if (!document.getElementById("filter") || !(asked.has("q") || asked.has("only"))) return;
  history.replaceState(null, "", location.pathname + location.hash);
  lastPage = 0;
}

// --- light and dark --------------------------------------------------------------------------------------------------

function stored(value) {
  try {
    if (value === undefined) return localStorage.getItem("theme");
    localStorage.setItem("theme", value);
  } catch { /* private windows may have no storage: the choice then lasts for this page */ }
  return null;
}

function wireTheme() {
  const button = document.getElementById("theme");
  const kept = stored();
  if (kept === "light" || kept === "dark") html.dataset.theme = kept;
  button.hidden = false;
  button.addEventListener("click", () => {
    const dark = html.dataset.theme ? html.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    html.dataset.theme = dark ? "light" : "dark";
    stored(html.dataset.theme);
  });
}

// --- begin -----------------------------------------------------------------------------------------------------------

html.classList.add("js");
served = remember(document);
localise(document);
wireTheme();
wireFilter();
takeOverFilter();
setInterval(tick, 1000);
document.addEventListener("visibilitychange", () => { if (!document.hidden) poll(); });
window.addEventListener("focus", poll);
window.addEventListener("online", poll);
window.addEventListener("offline", () => lost());
poll();
