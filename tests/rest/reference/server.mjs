// A reference server of raftmeta's REST protocol (docs/rest.md) in the memory of one process. It needs nothing but Node.
//
//     node server.mjs PORT [HISTORY]
//
// It shows what a server has to do, and answers the requests of test_protocol.py. It fails elections of the conformance
// suite, so no program is to rely on it. It keeps nothing over its end,
// knows no users, and remembers the last HISTORY revisions.
import { createHash } from "node:crypto";
import { createServer } from "node:http";

const [port, historyMax] = [Number(process.argv[2]), Number(process.argv[3] ?? 100000)];
const keys = new Map(); // by name: { key, value, revision, create_revision, version, session }
const sessions = new Map(); // by id: { ttl_s, timer }
const history = []; // { revision, changes }
const waiting = new Set(); // functions to be called at the next revision
let revision = 0;
let sessionNumber = Date.now() * 1000;

class Refusal extends Error {
  constructor(status, error, fate, more = {}) {
    super(error);
    Object.assign(this, { status, body: { error, fate, message: error.replaceAll("_", " "), ...more } });
  }
}
const refused = (status, error, more) => new Refusal(status, error, "refused", { revision, ...more });
const wrong = (field) => new Refusal(400, "invalid_argument", "not_executed", { field });
const base64 = (bytes) => Buffer.from(bytes).toString("base64");

// --- the state ---------------------------------------------------------------------------------------------------
function shown(record, hasValue = true) {
  const shape = { ...record, value: base64(record.value) };
  if (!hasValue) delete shape.value;
  if (!record.session) delete shape.session;
  return shape;
}

/** Do all operations in one revision, or throw and do none. */
function commit(operations) {
  const next = revision + 1;
  const changed = new Map(); // by name: a record, or null
  const find = (key) => (changed.has(key) ? changed.get(key) : keys.get(key)) ?? null;
  for (const { op, key, value, session, expected, mustExist } of operations) {
    const former = find(key);
    if (op === "create" && former) throw refused(412, "key_exists");
    if (!former && (op === "update" || mustExist || (op === "delete" && expected))) throw refused(404, "key_missing");
    if (expected && former.revision !== expected) throw refused(412, "compare_failed");
    if (session && !sessions.has(session)) throw refused(409, "lease_expired");
    if (op === "delete") {
      if (former) changed.set(key, null);
      continue;
    }
    const created = former ? former.create_revision : next;
    const version = former ? former.version + 1 : 1;
    changed.set(key, { key, value, revision: next, create_revision: created, version, session });
  }
  if (!changed.size) return revision;
  const changes = [];
  for (const [key, record] of changed) {
    if (record) changes.push({ type: "put", ...shown(record) });
    else if (keys.has(key)) changes.push({ type: "delete", key, revision: next });
    if (record) keys.set(key, record);
    else keys.delete(key);
  }
  revision = next;
  history.push({ revision, changes });
  if (history.length > historyMax) history.shift();
  for (const wake of [...waiting]) wake();
  return revision;
}

function endSession(id) {
  if (!sessions.has(id)) return;
  clearTimeout(sessions.get(id).timer);
  const gone = [...keys.values()].filter((record) => record.session === id);
  commit(gone.map((record) => ({ op: "delete", key: record.key })));
  sessions.delete(id);
}

function keepSession(id) {
  const session = sessions.get(id);
  clearTimeout(session.timer);
  session.timer = setTimeout(() => endSession(id), session.ttl_s * 1000);
  return { session: id, ttl_s: session.ttl_s };
}

// --- a request ---------------------------------------------------------------------------------------------------
class Call {
  constructor(request, url, body) {
    Object.assign(this, { request, url, body, query: url.searchParams, header: (name) => request.headers[name] });
    this.namespace = decodeURIComponent(this.header("raftmeta-namespace") ?? "");
    this.session = this.header("raftmeta-session") ?? "";
    const fence = this.header("raftmeta-fence");
    this.fence = fence && [decodeURIComponent(fence.slice(0, fence.lastIndexOf("@"))), Number(fence.split("@").pop())];
  }

  json() {
    if (!(this.header("content-type") ?? "").startsWith("application/json"))
      throw new Refusal(415, "http_refused", "not_executed");
    try {
      return JSON.parse(this.body.toString() || "{}");
    } catch {
      throw wrong("body");
    }
  }

  get(key) {
    return keys.get(this.namespace + key) ?? null;
  }

  /** A record or change without the namespace. */
  own(shape) {
    return { ...shape, key: shape.key.slice(this.namespace.length) };
  }

  list(prefix) {
    const whole = this.namespace + prefix;
    const found = [...keys.values()].filter((record) => record.key.startsWith(whole));
    return found.sort((a, b) => Buffer.compare(Buffer.from(a.key), Buffer.from(b.key)));
  }

  needSession() {
    if (!this.session) throw wrong("Raftmeta-Session");
    return this.session;
  }

  /** Do the operations if the checks hold, at most once for an idempotency key. */
  write(operations, checks = () => true, reads = []) {
    let [slot, record] = ["", ""];
    const idempotency = this.header("idempotency-key");
    if (idempotency !== undefined) {
      const parts = /^(\d{1,6})\/(\d{1,19})$/.exec(idempotency);
      if (!parts) throw wrong("Idempotency-Key");
      slot = `_raftmeta/rest/${this.needSession()}/${Number(parts[1])}`;
      const said = [this.request.method, this.url.href, ...["if-match", "if-none-match", "raftmeta-fence"].map(this.header)];
      const digest = createHash("sha256").update(JSON.stringify(said)).update(this.body).digest("hex").slice(0, 32);
      const number = parts[2].padStart(20, "0");
      record = `${number} ${digest}`;
      const found = this.get(slot);
      if (found && found.value.toString() === record) return { revision: found.revision, isReplay: true };
      if (found && found.value.toString().startsWith(number)) throw refused(422, "command_refused");
      if (found && found.value.toString() > number) throw new Refusal(409, "superseded", "outcome_unknown");
    }
    if (this.fence && this.get(this.fence[0])?.create_revision !== this.fence[1]) throw refused(409, "fenced");
    if (!checks()) {
      const found = [...new Set(reads)].map((key) => this.get(key)).filter(Boolean);
      throw refused(412, "check_failed", { found: found.map((one) => this.own(shown(one))) });
    }
    const all = [...operations];
    if (slot) all.unshift({ op: "put", key: slot, value: Buffer.from(record), session: this.session });
    return { revision: commit(all.map((one) => ({ ...one, key: this.namespace + one.key }))) };
  }
}

const answer = (status, json, headers = {}) => ({ status, json, headers });
function written({ revision: at, isReplay }, status = 200) {
  const replayed = isReplay ? { "Idempotency-Replayed": "true" } : {};
  return answer(status, { revision: at }, { ETag: `"${at}"`, "Raftmeta-Revision": at, ...replayed });
}
const expectedOf = (etag) => (!etag || etag === "*" ? 0 : Number(etag.replaceAll('"', "")));

// --- keys and transactions ---------------------------------------------------------------------------------------
function getKey(call, key) {
  const record = call.get(key);
  if (!record) throw refused(404, "missing");
  const headers = { ETag: `"${record.revision}"`, "Raftmeta-Create-Revision": record.create_revision };
  if ([headers.ETag, "*"].includes(call.header("if-none-match"))) return { status: 304, headers };
  if ((call.header("accept") ?? "").includes("application/json")) return answer(200, call.own(shown(record)), headers);
  return { status: 200, bytes: record.value, headers };
}

function putKey(call, key) {
  const [absent, match] = [call.header("if-none-match"), call.header("if-match")];
  if (absent !== undefined && absent !== "*") throw wrong("If-None-Match");
  const session = call.query.get("ephemeral") === "true" ? call.needSession() : "";
  const op = absent ? "create" : match ? "update" : "put";
  return written(call.write([{ op, key, value: call.body, session, expected: expectedOf(match) }]), absent ? 201 : 200);
}

const deleteKey = (call, key) =>
  written(call.write([{ op: "delete", key, mustExist: true, expected: expectedOf(call.header("if-match")) }]));

function listKeys(call) {
  const found = call.list(call.query.get("prefix") ?? "");
  const hasValue = call.query.get("keys_only") !== "true";
  return answer(200, { revision, keys: found.map((record) => call.own(shown(record, hasValue))) });
}

function transact(call) {
  const { checks = [], operations = [] } = call.json();
  const holds = ({ key, revision: at, create_revision: created, exists }) => {
    const record = call.get(key);
    if (exists !== undefined) return exists === Boolean(record);
    return created === undefined ? (record?.revision ?? 0) === at : (record?.create_revision ?? 0) === created;
  };
  const steps = operations.map((one, number) => {
    if (!["create", "delete", "put", "update"].includes(one.op)) throw wrong(`operations[${number}].op`);
    if (!one.key) throw wrong(`operations[${number}].key`);
    const value = Buffer.from(one.value ?? "", "base64");
    return { ...one, value, session: one.session ?? "", expected: one.expected_revision, mustExist: one.must_exist };
  });
  return written(call.write(steps, () => checks.every(holds), checks.map((check) => check.key)));
}

// --- places: a key of a session, whose value is a msgpack list (docs/formats.md "Keys of the recipes") -------------
const quoted = (text) =>
  encodeURIComponent(text).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
const partOf = (name) =>
  quoted(name).length <= 200 ? quoted(name) : `=${createHash("sha256").update(name).digest("hex")}`;
const sized = (mark, bytes) => Buffer.concat([Buffer.from([mark, bytes.length >> 8, bytes.length & 255]), bytes]);

function packHolder(name, session, data, id) {
  const number = Buffer.concat([Buffer.from([0xcf]), Buffer.from(session, "hex")]);
  const head = [Buffer.from(id ? [0x96, 2] : [0x95, 1]), sized(0xda, Buffer.from(name)), number, Buffer.from([0])];
  return Buffer.concat([...head, sized(0xc5, data), ...(id ? [sized(0xda, Buffer.from(id))] : [])]);
}

function unpackHolder(value) {
  let at = 1;
  const take = (size) => value.subarray(at, (at += size));
  const item = () => {
    const mark = value[at++];
    if (mark < 0x80) return mark;
    if (mark >= 0xcc && mark <= 0xcf) return take(1 << (mark - 0xcc)).toString("hex");
    if (mark >= 0xa0 && mark <= 0xbf) return take(mark & 31).toString();
    const [size, isBytes] = { 0xc4: [1, 1], 0xc5: [2, 1], 0xc6: [4, 1], 0xd9: [1, 0], 0xda: [2, 0] }[mark];
    const bytes = take(take(size).readUIntBE(0, size));
    return isBytes ? bytes : bytes.toString();
  };
  const [, name, , , data, id] = Array.from({ length: value[0] & 15 }, item);
  return { name, data, id };
}

function placeShape(record, prefix) {
  const { data, id } = unpackHolder(record.value);
  const name = id ?? decodeURIComponent(record.key.slice(prefix.length));
  const fence = `${encodeURIComponent(record.key).replaceAll("%2F", "/")}@${record.create_revision}`;
  return { id: name, data: base64(data), epoch: record.create_revision, fence };
}

function places(call, prefix) {
  const found = call.list(prefix).map((record) => placeShape(call.own(record), prefix));
  return found.sort((a, b) => a.epoch - b.epoch);
}

function take(call, prefix, id) {
  const [session, part] = [call.needSession(), partOf(id)];
  const [key, owner] = [prefix + part, call.query.get("owner")];
  const name = owner ? `client ${owner}` : `session ${session}`;
  const value = packHolder(name, session, call.body, part.startsWith("=") ? id : "");
  const former = call.get(key);
  if (former && former.session === session && former.value.equals(value)) return [200, placeShape(call.own(former), prefix)];
  const isOurs = former && (former.session === session || unpackHolder(former.value).name === name);
  if (former && !isOurs) throw refused(409, "id_conflict");
  // Two revisions where the place is taken over, so that the epoch grows; nobody is served in between.
  if (former) call.write([{ op: "delete", key }]);
  call.write([{ op: "create", key, value, session }]);
  return [201, placeShape(call.own(call.get(key)), prefix)];
}

function giveBack(call, key) {
  const record = call.get(key);
  if (record && record.session !== call.needSession()) throw refused(409, "id_conflict");
  if (record) call.write([{ op: "delete", key }]);
  return { status: 204 };
}

const groupOf = (name) => `_raftmeta/groups/${partOf(name)}/`;
const electionOf = (name) => `_raftmeta/elections/${partOf(name)}/`;
const getGroup = (call, group) => answer(200, { group, members: places(call, groupOf(group)), revision });
function getElection(call, service) {
  const candidates = places(call, electionOf(service));
  return answer(200, { service, leader: candidates[0] ?? null, candidates, revision });
}
function nominate(call, service, candidate) {
  const [status, shape] = take(call, electionOf(service), candidate);
  return answer(status, { ...shape, is_leader: places(call, electionOf(service))[0].epoch === shape.epoch });
}

// --- sessions and changes ----------------------------------------------------------------------------------------
function beginSession(call) {
  const { ttl_s } = call.json();
  if (typeof ttl_s !== "number" || ttl_s < 0.1 || ttl_s > 86400) throw wrong("ttl_s");
  const id = (++sessionNumber).toString(16).padStart(16, "0");
  sessions.set(id, { ttl_s });
  return answer(201, keepSession(id), { Location: `/v1/sessions/${id}` });
}
function renewSession(_call, id) {
  if (!sessions.has(id)) throw refused(404, "missing");
  return answer(200, keepSession(id));
}
function closeSession(_call, id) {
  endSession(id);
  return { status: 204 };
}

function getChanges(call) {
  const { query, namespace } = call;
  const [group, election, prefix] = [query.get("group"), query.get("election"), query.get("prefix")];
  const beginning = group ? groupOf(group) : election ? electionOf(election) : prefix;
  const matches = ({ key }) =>
    beginning === null ? key === namespace + query.get("key") : key.startsWith(namespace + beginning);
  let after = Number(call.header("last-event-id") ?? query.get("after") ?? NaN);
  if (!Number.isInteger(after)) throw wrong("after");
  const next = () => {
    if (history.length && after + 1 < history[0].revision)
      throw refused(410, "compacted", { advice: "read the state again, and go on after its revision" });
    const news = history.slice(history.length && Math.max(0, after + 1 - history[0].revision));
    const found = news.map((one) => ({ ...one, changes: one.changes.filter(matches).map((c) => call.own(c)) }));
    after = Math.max(after, revision);
    return found.filter((one) => one.changes.length);
  };
  const first = next();
  return { stream: (call.header("accept") ?? "").includes("text/event-stream"), first, next, at: () => after };
}

function sendChanges(call, response, { stream, first, next, at }) {
  if (!stream) {
    const waitMs = Number(call.query.get("wait_s") ?? 30) * 1000;
    const end = (news) => {
      waiting.delete(look);
      clearTimeout(timer);
      send(response, answer(200, { revision: at(), changes: news.flatMap((one) => one.changes) }));
    };
    const look = () => ((news) => news.length && end(news))(next());
    const timer = setTimeout(() => end([]), waitMs);
    if (first.length || !waitMs) end(first);
    else waiting.add(look);
    return;
  }
  response.writeHead(200, { "Content-Type": "text/event-stream" });
  const event = (kind, id, told) => response.write(`id: ${id}\nevent: ${kind}\ndata: ${JSON.stringify(told)}\n\n`);
  const tell = (news) => news.forEach((one) => event("changes", one.revision, one));
  const look = () => tell(next());
  const alive = setInterval(() => event("alive", at(), { revision: at() }), 1000);
  waiting.add(look);
  response.on("close", () => (clearInterval(alive), waiting.delete(look)));
  event("alive", at(), { revision: at() });
  tell(first);
}

// --- the routes --------------------------------------------------------------------------------------------------
const routes = [
  ["GET", /^\/v1\/status$/, () => answer(200, { name: "reference", is_ready: true, leader: "reference", revision })],
  ["POST", /^\/v1\/sessions$/, beginSession],
  ["PUT", /^\/v1\/sessions\/([^/]+)$/, renewSession],
  ["DELETE", /^\/v1\/sessions\/([^/]+)$/, closeSession],
  ["GET", /^\/v1\/keys$/, listKeys],
  ["GET", /^\/v1\/keys\/(.+)$/, getKey],
  ["PUT", /^\/v1\/keys\/(.+)$/, putKey],
  ["DELETE", /^\/v1\/keys\/(.+)$/, deleteKey],
  ["POST", /^\/v1\/transactions$/, transact],
  ["GET", /^\/v1\/changes$/, getChanges],
  ["GET", /^\/v1\/groups\/([^/]+)$/, getGroup],
  ["PUT", /^\/v1\/groups\/([^/]+)\/members\/([^/]+)$/, (call, group, id) => answer(...take(call, groupOf(group), id))],
  ["DELETE", /^\/v1\/groups\/([^/]+)\/members\/([^/]+)$/, (call, g, id) => giveBack(call, groupOf(g) + partOf(id))],
  ["GET", /^\/v1\/elections\/([^/]+)$/, getElection],
  ["PUT", /^\/v1\/elections\/([^/]+)\/candidates\/([^/]+)$/, nominate],
  ["DELETE", /^\/v1\/elections\/([^/]+)\/candidates\/([^/]+)$/, (call, s, id) => giveBack(call, electionOf(s) + partOf(id))],
];

function send(response, { status, json, bytes, headers = {} }) {
  const type = json ? "application/json" : "application/octet-stream";
  const body = json ? Buffer.from(JSON.stringify(json)) : bytes;
  response.writeHead(status, { ...headers, ...(body ? { "Content-Type": type, "Content-Length": body.length } : {}) });
  response.end(body);
}

createServer({ keepAliveTimeout: 60000 }, async (request, response) => {
  const parts = [];
  for await (const part of request) parts.push(part);
  try {
    const url = new URL(request.url, "http://localhost");
    for (const [method, pattern, handler] of routes) {
      const found = method === request.method && pattern.exec(request.url.split("?")[0]);
      if (!found) continue;
      const call = new Call(request, url, Buffer.concat(parts));
      const made = handler(call, ...found.slice(1).map(decodeURIComponent));
      return made.next ? sendChanges(call, response, made) : send(response, made);
    }
    send(response, answer(404, { error: "no_route", fate: "not_executed", message: "there is no such resource" }));
  } catch (error) {
    if (error instanceof Refusal) return send(response, answer(error.status, error.body));
    send(response, answer(500, { error: "outcome_unknown", fate: "outcome_unknown", message: String(error) }));
  }
}).listen(port, "127.0.0.1");
