// Small parts that all views use: elements, numbers as text, questions to the server, streams.
//
// Text from the cluster becomes a text node or an attribute, and never HTML. The browser enforces it too: the page's policy
// asks for trusted types, and there is no policy that makes them.

const SVG = "http://www.w3.org/2000/svg";

function build(element, properties, children) {
  for (const [name, value] of Object.entries(properties || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.setAttribute("class", value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat()) if (child !== null && child !== undefined) element.append(child);
  return element;
}

export const el = (tag, properties, ...children) => build(document.createElement(tag), properties, children);
export const svg = (tag, properties, ...children) => build(document.createElementNS(SVG, tag), properties, children);
export const $ = (id) => document.getElementById(id);

export function say(element, text) {
  if (element.textContent !== String(text)) element.textContent = text;
}

// One child of `parent` for each item, made once and then updated: a button does not vanish under a finger.
export function keyed(parent, items, keyOf, make, update) {
  const known = parent.known || (parent.known = new Map());
  const wanted = new Set(items.map(keyOf));
  for (const [key, child] of known) if (!wanted.has(key)) { child.remove(); known.delete(key); }
  let before = null;
  for (const item of items) {
    const key = keyOf(item);
    let child = known.get(key);
    if (!child) { child = make(item); known.set(key, child); }
    if (update) update(child, item);
    const next = before ? before.nextSibling : parent.firstChild;
    if (next !== child) parent.insertBefore(child, next);
    before = child;
  }
}

// --- numbers as text -------------------------------------------------------------------------------------------------
const whole = new Intl.NumberFormat("en");
export const number = (value) => (value === null || value === undefined ? "–" : whole.format(value));

export function short(value) {
  if (value === null || value === undefined) return "–";
  const units = [[1e9, "G"], [1e6, "M"], [1e4, "k"]];
  for (const [size, unit] of units) if (Math.abs(value) >= size) return `${trim(value / (unit === "k" ? 1e3 : size))} ${unit}`;
  return Math.abs(value) >= 100 || Number.isInteger(value) ? whole.format(Math.round(value)) : trim(value);
}

const trim = (value) => String(Number(value.toPrecision(3)));

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  for (const [size, unit] of [[1 << 30, "GiB"], [1 << 20, "MiB"], [1 << 10, "KiB"]]) if (value >= size) return `${trim(value / size)} ${unit}`;
  return `${Math.round(value)} B`;
}

export const millis = (value) => (value === null || value === undefined ? "–" : `${value < 10 ? value.toFixed(2) : trim(value)} ms`);

export function span(seconds) {
  if (seconds < 10) return `${Math.max(0, seconds).toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString("en-GB");

// --- colours of members ------------------------------------------------------------------------------------------------
const COLOURS = 8;
let names = [];
export function nameColours(sorted) { names = sorted; }
export function colour(name) {
  const index = names.indexOf(name);
  return index < 0 ? "var(--muted)" : `var(--s${index % COLOURS})`;
}
export function dot(name) {
  const mark = el("span", { class: "dot" });
  mark.style.background = colour(name);
  return mark;
}

// --- the server ----------------------------------------------------------------------------------------------------------
export const session = { csrf: "", onOver: () => {} };

export class Refused extends Error {
  constructor(status, told) {
    super([told.message || `status ${status}`, told.advice].filter(Boolean).join(" "));
    this.status = status;
  }
}

export async function ask(path, body) {
  const options = { headers: {}, cache: "no-store" };
  if (body !== undefined) {
    options.method = "POST";
    options.body = JSON.stringify(body);
    options.headers["Content-Type"] = "application/json";
    options.headers["Raftmeta-Csrf"] = session.csrf;
  }
  const answer = await fetch(path, options);
  const told = await answer.json().catch(() => ({}));
  if (!answer.ok) {
    if (answer.status === 401 && path !== "api/login") session.onOver();
    throw new Refused(answer.status, told);
  }
  return told;
}

// A stream of events that opens itself again. handlers: by the name of the event; `lost` when it broke.
export function listen(path, handlers) {
  let source = null;
  let timer = 0;
  let isClosed = false;
  function open() {
    source = new EventSource(path);
    for (const [name, handle] of Object.entries(handlers)) {
      if (name !== "lost") source.addEventListener(name, (event) => handle(JSON.parse(event.data)));
    }
    source.addEventListener("over", () => { close(); session.onOver(); });
    source.onerror = () => {
      source.close();
      if (isClosed) return;
      if (handlers.lost) handlers.lost();
      // Whether the session is over, a stream cannot tell: the question does.
      timer = setTimeout(() => ask("api/session").then((told) => (told.user === null ? session.onOver() : open()), () => { timer = setTimeout(open, 1000); }), 700);
    };
  }
  function close() { isClosed = true; clearTimeout(timer); if (source) source.close(); }
  open();
  return close;
}

export function toast(text, isBad) {
  const shown = el("div", { class: isBad ? "toast bad" : "toast", role: isBad ? "alert" : "status" }, text);
  $("toasts").append(shown);
  setTimeout(() => shown.remove(), isBad ? 12000 : 6000);
}
