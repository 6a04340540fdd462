// Groups, elections, locks, worker groups and leases, with the time that is left to each.
import { $, el, keyed, listen, number, say, span } from "./parts.js";

let close = null;
let told = null;
let heard = 0;

export function openHolders() {
  if (close) return;
  close = listen("api/live/holders", {
    holders: (news) => { told = news; heard = performance.now(); show(); },
    problem: (problem) => say($("leases-empty"), problem.message),
  });
}

export function closeHolders() { if (close) close(); close = null; }

function show() {
  const places = told.places.rows || [];
  const ttl = new Map((told.leases.rows || []).map((row) => [row.id, row.ttl_ms]));
  const of = (...kinds) => places.filter((place) => kinds.includes(place.kind));
  placesInto($("elections"), of("elections"), told.places, "No election has a candidate.", ttl, ["leads", "waits"]);
  placesInto($("groups"), of("groups"), told.places, "No group has a member.", ttl, ["", ""]);
  placesInto($("locks"), of("locks", "rwlocks", "semaphores"), told.places, "No lock is held.", ttl, ["first", "waits"]);
  workersInto($("workers"), told.workers);
  leasesInto(told.leases);
}

function note(box, text) { box.replaceChildren(el("p", { class: "muted small" }, text)); box.known = null; }

function placesInto(box, rows, part, empty, ttl, [first, others]) {
  if (part.denied) return note(box, `Not shown: ${part.denied}`);
  if (!rows.length) return note(box, empty);
  if (!box.known) box.replaceChildren();
  const text = (place) => `${place.kind}/${place.name}`;
  keyed(box, rows, text, () => el("div", { class: "place" }, el("div", { class: "head" }, el("span"), el("span", { class: "hint" })), el("div")), (child, place) => {
    say(child.firstChild.firstChild, place.name);
    say(child.firstChild.lastChild, place.kind === "elections" ? `epoch ${number(place.holders[0].epoch)}` : count(place.holders.length, place.kind === "groups" ? "member" : "place"));
    keyed(child.lastChild, place.holders, (holder) => `${holder.name} ${holder.epoch}`, makeHolder, (row, holder) => {
      const index = place.holders.indexOf(holder);
      const word = index === 0 ? first : others;
      say(row.firstChild.firstChild, place.kind === "groups" || place.kind === "elections" ? holder.name : holder.owner || holder.name);
      say(row.firstChild.lastChild, [word, holder.data].filter(Boolean).join(" · "));
      showLeft(row.lastChild, holder.left_ms, ttl.get(holder.lease));
    });
  });
}

const count = (amount, word) => `${number(amount)} ${word}${amount === 1 ? "" : "s"}`;

function makeHolder() {
  return el("div", { class: "holder" }, el("div", { class: "who" }, el("span"), " ", el("span", { class: "muted small" })), makeLeft());
}

function makeLeft() {
  return el("span", { class: "left" }, el("span", { class: "track" }, el("div", { class: "fill" })), el("span", { class: "amount" }));
}

function showLeft(box, left, ttl) {
  const isKnown = left !== null && left !== undefined && ttl;
  box.firstChild.hidden = !isKnown;
  box.dataset.left = isKnown ? left : "";
  box.dataset.ttl = isKnown ? ttl : "";
  if (!isKnown) say(box.lastChild, "");
  else tick(box);
}

function tick(box) {
  if (!box.dataset.ttl) return;
  const left = Math.max(0, Number(box.dataset.left) - (performance.now() - heard));
  const share = Math.min(1, left / Number(box.dataset.ttl));
  const fill = box.firstChild.firstChild;
  fill.style.width = `${(100 * share).toFixed(1)}%`;
  fill.classList.toggle("low", share < 0.3);
  say(box.lastChild, span(left / 1000));
}

// Between two messages the time goes on.
setInterval(() => { if (close && told) document.querySelectorAll("#view-holders .left").forEach(tick); }, 500);

function workersInto(box, part) {
  if (part.denied) return note(box, `Not shown: ${part.denied}`);
  if (!part.rows.length) return note(box, "No worker group.");
  if (!box.known) box.replaceChildren();
  keyed(box, part.rows, (row) => row.group, () => el("div", { class: "place" }, el("div", { class: "head" }, el("span"), el("span", { class: "pill" }), el("span", { class: "hint" })), el("div")), (child, row) => {
    const [name, state, hint] = child.firstChild.children;
    say(name, row.group);
    say(state, row.state);
    state.className = `pill ${row.state === "Stable" ? "good" : row.state === "Empty" ? "" : "warn"}`;
    say(hint, `generation ${number(row.generation)}${row.protocol ? `, ${row.protocol}` : ""}`);
    keyed(child.lastChild, row.members, (member) => member.id, () => el("div", { class: "holder" }, el("div", { class: "who" }), el("span", { class: "muted small" })), (line, member) => {
      say(line.firstChild, member.instance || member.id);
      say(line.lastChild, [member.leads ? "leads" : "", `assignment ${number(member.assignment_bytes)} B`].filter(Boolean).join(" · "));
    });
  });
}

function leasesInto(part) {
  const body = $("leases-table").tBodies[0];
  const rows = part.rows || [];
  $("leases-table").hidden = !rows.length;
  say($("leases-empty"), part.denied ? `Not shown: ${part.denied}` : rows.length ? "" : "No lease.");
  say($("leases-hint"), part.denied ? "" : `${count(rows.length, "lease")}${part.is_cut ? " shown of more" : ""}`);
  keyed(body, rows, (row) => row.id, (row) => el("tr", {}, el("td", { class: "mono" }, row.id), el("td", {}, makeLeft()), el("td"), el("td"), el("td", { class: "line" })), (child, row) => {
    const cells = child.cells;
    showLeft(cells[1].firstChild, row.left_ms, row.ttl_ms);
    say(cells[2], span(row.ttl_ms / 1000));
    say(cells[3], (row.holds || []).join(", "));
    say(cells[4], row.note);
  });
}
