// The keys browser: folders and keys below a prefix, one key with its history, and the changes while they happen.
import { $, ask, bytes, el, listen, number, say, toast } from "./parts.js";

const CHANGES_SHOWN = 100;
const state = { prefix: { id: "", text: "" }, revision: "", flat: false, picked: "", closeWatch: null };

const encoder = new TextEncoder();
function idOf(text) {
  let binary = "";
  for (const byte of encoder.encode(text)) binary += String.fromCharCode(byte);
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

function query(fields) {
  return new URLSearchParams(Object.entries(fields).filter(([, value]) => value !== "" && value !== false)).toString();
}

function attempt(work) {
  return work.catch((error) => { if (error.status !== 401) toast(error.message, true); });
}

export function openKeys() {
  if (!$("keys-table").dataset.loaded) attempt(load(""));
}

export function closeKeys() { stopWatch(); }

async function load(start) {
  const told = await ask(`api/keys?${query({ prefix: state.prefix.id, start, revision: state.revision, flat: state.flat })}`);
  $("keys-table").dataset.loaded = "yes";
  state.prefix = told.prefix;
  showPath(told.prefix);
  $("keys-table").tBodies[0].replaceChildren(...told.rows.map((row) => (row.kind === "folder" ? folderRow(row) : keyRow(row))));
  $("keys-empty").hidden = told.rows.length > 0;
  say($("keys-count"), `${told.rows.length} shown, as of revision ${number(told.revision)}`);
  $("keys-more").hidden = !told.next;
  $("keys-more").onclick = () => attempt(load(told.next));
}

function go(prefix) {
  state.prefix = prefix;
  $("keys-prefix").value = prefix.text;
  stopWatch();
  return attempt(load(""));
}

function showPath(prefix) {
  const crumbs = [el("button", { type: "button", onclick: () => go({ id: "", text: "" }) }, "all keys")];
  const parts = prefix.text.split("/");
  let path = "";
  for (const part of parts.slice(0, -1)) {
    path += `${part}/`;
    // A part with escapes is not the text of its bytes, and leads nowhere.
    const target = { id: idOf(path), text: path };
    const isPlain = prefix.id === idOf(prefix.text);
    crumbs.push(isPlain ? el("button", { type: "button", onclick: () => go(target) }, `${part}/`) : el("span", {}, `${part}/`));
  }
  if (parts[parts.length - 1]) crumbs.push(el("span", { class: "muted" }, `${parts[parts.length - 1]}*`));
  $("keys-path").replaceChildren(...crumbs);
}

function pickable(row, action) {
  row.tabIndex = 0;
  row.classList.add("pick");
  row.addEventListener("click", action);
  row.addEventListener("keydown", (event) => { if (event.key === "Enter") action(); });
  return row;
}

const behind = (text) => (text.startsWith(state.prefix.text) ? text.slice(state.prefix.text.length) : text) || text;

function folderRow(row) {
  const text = behind(row.text);
  return pickable(el("tr", {}, el("td", { class: "key folder", title: row.text }, text), el("td"), el("td"), el("td")), () => go({ id: row.id, text: row.text }));
}

function keyRow(row) {
  const made = el("tr", { "data-key": row.id },
    el("td", { class: "key", title: row.text }, behind(row.text)), el("td", { class: "line", title: row.line }, row.line),
    el("td", { class: "number" }, bytes(row.bytes)), el("td", { class: "number" }, number(row.revision)));
  if (row.id === state.picked) made.classList.add("picked");
  return pickable(made, () => attempt(showKey(row.id, row.text)));
}

// --- one key -----------------------------------------------------------------------------------------------------------
async function showKey(id, text) {
  state.picked = id;
  for (const row of $("keys-table").tBodies[0].rows) row.classList.toggle("picked", row.dataset.key === id);
  const told = await ask(`api/key?${query({ key: id, revision: state.revision })}`);
  const box = $("key-detail");
  box.className = "";
  if (!told.record) {
    box.replaceChildren(el("p", { class: "title" }, text), el("p", { class: "muted" }, "This key does not exist."));
    return;
  }
  const record = told.record;
  const history = el("div");
  box.replaceChildren(
    el("p", { class: "title" }, record.text),
    facts([["Revision", number(record.revision)], ["Created at", number(record.created)], ["Version", number(record.version)], ["Size", bytes(record.bytes)],
      ["Lease", record.lease || "none"], ...(record.value.holder ? [["Holder", record.value.holder.owner], ["Its data", record.value.holder.data || "none"]] : [])]),
    valueOf(record.value),
    el("h3", {}, "History", el("button", { class: "quiet", type: "button", onclick: () => attempt(load(state.revision)) }, "Refresh")),
    history);
  async function load(revision) {
    history.replaceChildren(el("p", { class: "muted small" }, "Reading older revisions …"));
    const found = await ask(`api/history?${query({ key: id, revision })}`);
    history.replaceChildren(...found.values.map(versionOf), ending(found, (next) => attempt(load(next))));
  }
  await load(state.revision);
}

function facts(rows) {
  return el("dl", { class: "facts" }, ...rows.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

function valueOf(value) {
  const text = value.text === "" ? el("p", { class: "muted small" }, "The value is empty.") : el("pre", { class: value.is_text ? "" : "dump" }, value.text);
  return el("div", {}, text, value.is_cut ? el("p", { class: "muted small" }, `Only the beginning of ${bytes(value.bytes)} is shown.`) : null);
}

function versionOf(record) {
  return el("div", { class: "version" },
    el("div", { class: "head" }, el("span", {}, `revision ${number(record.revision)}`), el("span", {}, `version ${number(record.version)}`), el("span", {}, bytes(record.bytes))),
    valueOf(record.value));
}

function ending(found, more) {
  if (found.end === "created") return el("p", { class: "muted small" }, "The key was created there.");
  if (found.end === "compacted") return el("p", { class: "muted small" }, "Older revisions were compacted.");
  return el("button", { class: "quiet", type: "button", onclick: () => more(String(found.values[found.values.length - 1].revision - 1)) }, "Older values");
}

// --- changes while they happen -------------------------------------------------------------------------------------------
function startWatch() {
  const body = $("watch-table").tBodies[0];
  const shown = state.prefix.text || "all keys";
  state.closeWatch = listen(`api/live/keys?${query({ prefix: state.prefix.id })}`, {
    watching: () => say($("watch-hint"), `watching ${shown}`),
    changes: (told) => {
      $("watch-empty").hidden = true;
      for (const change of told.changes) body.prepend(changeRow(change));
      if (told.left_out) body.prepend(el("tr", {}, el("td", { colspan: 4, class: "muted" }, `${told.left_out} more changes at once`)));
      while (body.rows.length > CHANGES_SHOWN) body.lastChild.remove();
    },
    problem: (told) => { stopWatch(); toast(told.message, true); },
    lost: () => say($("watch-hint"), "connecting again …"),
  });
  say($("watch-toggle"), "Stop watching");
  say($("watch-hint"), "opening …");
}

function stopWatch() {
  if (state.closeWatch) state.closeWatch();
  state.closeWatch = null;
  say($("watch-toggle"), "Watch this prefix");
  say($("watch-hint"), "");
}

function changeRow(change) {
  return el("tr", { class: "fresh" },
    el("td", { class: "narrow" }, number(change.revision)), el("td", { class: "narrow" }, el("span", { class: `tag ${change.type}` }, change.type)),
    el("td", { class: "key", title: change.text }, change.text), el("td", { class: "line", title: change.line || "" }, change.line || ""));
}

export function setUpKeys() {
  $("keys-form").addEventListener("submit", (event) => {
    event.preventDefault();
    state.revision = $("keys-revision").value.trim();
    state.flat = $("keys-flat").checked;
    const text = $("keys-prefix").value;
    // The text in the field stands for the bytes that were chosen, until it is changed.
    go(text === state.prefix.text ? state.prefix : { id: idOf(text), text });
  });
  $("watch-toggle").addEventListener("click", () => (state.closeWatch ? stopWatch() : startWatch()));
}
