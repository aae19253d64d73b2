// Code for all pages: requests, texts of numbers and times, and small components. The pages use
// Airflow's React, and CSS variables of Airflow's theme, which is light or dark.

export const React = globalThis.React;
export const h = React.createElement;

// Airflow sets <base href> to a URL with the path of [api] base_url.
const base = new URL(document.baseURI).pathname.replace(/\/$/, "");
export const href = (path) => `${base}/${path}`;

export class HttpError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export const ask = async (path, init) => {
  const answer = await fetch(href(path), { credentials: "same-origin", ...init });
  if (answer.status === 401) {
    globalThis.location.assign(href(`api/v2/auth/login?next=${encodeURIComponent(globalThis.location.href)}`));
  }
  const body = await answer.json().catch(() => null);
  if (!answer.ok) {
    const detail = typeof body?.detail === "string" ? body.detail : `HTTP ${answer.status}`;
    throw new HttpError(answer.status, detail);
  }
  return body;
};

export const useAnswer = (path) => {
  const [state, set] = React.useState({ path: null });
  React.useEffect(() => {
    let current = true;
    ask(path)
      .then((answer) => current && set({ path, answer }))
      .catch((error) => current && set({ path, error }));
    return () => {
      current = false;
    };
  }, [path]);
  return state.path === path ? state : {};
};

// ---- the address: ?table=...&connection=..., ?view=compactions, or the filters of the list ------

export const address = () => Object.fromEntries(new URLSearchParams(globalThis.location.search));

export const addressOf = (wanted) => {
  const query = new URLSearchParams(wanted).toString();
  return href(`plugin/hiveacid${query ? `?${query}` : ""}`);
};

export const DEFAULT_CONNECTION = "hive_acid_default";

const move = (change, wanted) => {
  globalThis.history[change](globalThis.history.state, "", addressOf(wanted));
  globalThis.dispatchEvent(new Event("hiveacid-moved"));
};

export const go = (wanted) => move("pushState", wanted);

// Filters of the list are in its address, so that a link shows the same rows.
export const refine = (filters) =>
  move("replaceState", Object.fromEntries(Object.entries(filters).filter(([, value]) => value)));

// The address of the list with the last filters, for the way back from another page.
let listed = {};
export const listAddress = () => listed;
export const noteList = (at) => {
  listed = at;
};

// A move to a new page removes the element that has the focus, so the new page sets the focus. On
// the first load, `before` is null, and the focus stays where Airflow puts it.
let before = null;
export const moved = (from) => {
  before = from;
};

export const Heading = ({ children }) => {
  const here = React.useRef(null);
  React.useEffect(() => {
    if (before) here.current.focus();
  }, []);
  return h("h1", { ref: here, tabIndex: -1 }, children);
};

// The rows of `hiveacid/tables`, which sends the names of the columns once.
export const rowsOf = ({ columns, tables }) =>
  tables.map((values) => Object.fromEntries(columns.map((column, at) => [column, values[at]])));

// When the user returns to a list, focus the link to the page that the user left.
export const useReturn = (isReady) => {
  const here = React.useRef(null);
  React.useEffect(() => {
    if (!isReady || !before?.table) return;
    const { table, connection } = before;
    const wanted = addressOf({ table, connection });
    [...here.current.querySelectorAll("td a")].find((link) => link.getAttribute("href") === wanted)?.focus();
  }, [isReady]);
  return here;
};

export const PageLink = ({ to, children, ...rest }) =>
  h(
    "a",
    {
      href: addressOf(to),
      onClick: (event) => {
        if (event.metaKey || event.ctrlKey || event.shiftKey) return;
        event.preventDefault();
        go(to);
      },
      ...rest,
    },
    children,
  );

// ---- numbers and times -----------------------------------------------------------------------

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export const sizeText = (bytes) => {
  if (bytes === null || bytes === undefined) return "";
  let [size, unit] = [bytes, 0];
  while (size >= 1024 && unit < UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit && size < 100 ? size.toFixed(1) : Math.round(size)} ${UNITS[unit]}`;
};

// Make these objects only once, because each call of toLocaleString would make a new object.
const COUNT = new Intl.NumberFormat("en");
const MOMENT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

export const countText = (number) =>
  number === null || number === undefined ? "" : COUNT.format(number);

export const momentText = (seconds) => MOMENT.format(1000 * seconds);

export const shareText = (ratio) =>
  ratio === null || ratio === undefined ? "no base" : `${(100 * ratio).toFixed(1)} %`;

const SPANS = [
  [86400, "d"],
  [3600, "h"],
  [60, "min"],
  [1, "s"],
];

export const spanText = (seconds) => {
  const [size, unit] = SPANS.find(([least]) => seconds >= least) ?? SPANS[3];
  return `${Math.max(0, Math.floor(seconds / size))} ${unit}`;
};

export const secondsOf = (time) => (typeof time === "string" ? Date.parse(time) / 1000 : time);

const agoText = (seconds) => `${spanText(Date.now() / 1000 - seconds)} ago`;

export const Ago = ({ time, none = "" }) => {
  const seconds = secondsOf(time);
  return seconds ? h("time", { title: momentText(seconds) }, agoText(seconds)) : none;
};

// The collector stores 0 for a table that was never compacted.
export const Compacted = ({ time }) => h(Ago, { time, none: time === 0 ? "never compacted" : "unknown" });

export const ago = (time) => (time ? h(Ago, { time }) : "");

export const Measured = ({ collections }) => {
  const oldest = Math.min(...collections.map((one) => secondsOf(one.measured)));
  return h("span", { className: "ha-muted", id: "hiveacid-age" }, "Measured ", h(Ago, { time: oldest, none: "never" }), ".");
};

// ---- components ------------------------------------------------------------------------------

// Without a prototype, a stored state such as "constructor" is unknown.
const STATES = {
  __proto__: null,
  blocked: ["red", "Blocked"],
  failed: ["red", "Failed"],
  due: ["orange", "Due"],
  unknown: ["gray", "Not measured"],
  waiting: ["blue", "Waiting"],
  "switched off": ["gray", "Switched off"],
  fine: ["green", "Fine"],
};

export const stateOrder = Object.keys(STATES);

const stateOf = (state) => STATES[state] ?? ["gray", state];

export const stateText = (state) => stateOf(state)[1];

export const State = ({ state }) => {
  const [color, text] = stateOf(state);
  return h("span", { className: `ha-badge ha-${color}` }, text);
};

export const Notice = ({ kind = "info", id, children }) =>
  h("div", { className: `ha-notice ha-${kind}`, role: kind === "error" ? "alert" : "status", id }, children);

export const Wait = () => h("p", { className: "ha-muted", role: "status" }, "Loading ...");

export const Failure = ({ error }) =>
  h(
    Notice,
    { kind: "error", id: "hiveacid-error" },
    error.status === 403
      ? "You may not see the numbers of Hive tables: they need the right to read assets."
      : `The numbers cannot be loaded: ${error.message}. Reload the page, or ask an administrator.`,
  );

export const dagHref = (dag, run) => href(`dags/${dag}${run ? `/runs/${encodeURIComponent(run)}` : ""}`);

// A job key is DAG/run/task/map index, optionally followed by a job number and an installation.
export const JobLink = ({ job }) => {
  const [, dag, run, task] = /^([^/]+)\/([^/]+)\/([^/]+)\/-?\d+/.exec(job ?? "") ?? [];
  if (!dag) return h("span", { className: "ha-muted" }, job || "unknown client");
  const path = `dags/${dag}/runs/${encodeURIComponent(run)}/tasks/${task}`;
  return h("a", { href: href(path), title: job }, `${dag} / ${task}`);
};

// A table whose columns are [heading, function of a row, is a number]. The table has its own
// horizontal scroll bar, and leaves out columns without any content.
export const Grid = ({ columns, rows, label, none, leftOut }) => {
  if (rows.length === 0) return h("p", { className: "ha-muted" }, none);
  const filled = columns.filter(([, content]) => rows.some((row) => content(row) !== ""));
  const className = (isNumber) => (isNumber ? "ha-number" : "");
  const head = filled.map(([text, , isNumber]) =>
    h("th", { key: text, scope: "col", className: className(isNumber) }, text),
  );
  const cells = (row) =>
    filled.map(([text, content, isNumber]) =>
      h("td", { key: text, className: className(isNumber) }, content(row)),
    );
  return h(
    "div",
    { className: "ha-scroll", tabIndex: 0, role: "region", "aria-label": label },
    h(
      "table",
      { className: "ha-table" },
      h("thead", null, h("tr", null, head)),
      h("tbody", null, rows.map((row, at) => h("tr", { key: at }, cells(row)))),
    ),
    leftOut ? h("p", { className: "ha-muted" }, `${countText(leftOut)} more are not stored.`) : null,
  );
};

// ---- commands to paste -------------------------------------------------------------------------

// Texts of other clients are in remedies, so only words that no shell can misread get a button.
const COMMAND = /^[a-z]+( (?!TABLE\b|ID\b)[\w.=:-]+)+$/;

const CopyButton = ({ command }) => {
  const [text, setText] = React.useState("Copy");
  const copy = (event) => {
    // Without TLS, browsers have no clipboard, so select the command in any case.
    globalThis.getSelection().selectAllChildren(event.target.previousSibling);
    const copied = globalThis.navigator.clipboard?.writeText(command) ?? Promise.reject(new Error("no TLS"));
    copied.then(() => setText("Copied"), () => setText(document.execCommand("copy") ? "Copied" : "Selected"));
  };
  return h("button", { type: "button", className: "ha-copy", "aria-label": `Copy ${command}`, "aria-live": "polite", onClick: copy }, text);
};

// The text of a remedy; commands between backquotes can be copied.
export const Remedy = ({ text, connection }) =>
  text.split("`").map((piece, at) => {
    if (at % 2 === 0) return piece;
    if (!COMMAND.test(piece)) return h("code", { key: at }, piece);
    const isDefault = connection === DEFAULT_CONNECTION;
    const command = `airflow hiveacid ${piece}${isDefault || !/^[\w.-]+$/.test(connection) ? "" : ` --conn-id ${connection}`}`;
    return h(React.Fragment, { key: at }, h("code", null, command), h(CopyButton, { command }));
  });

// ---- charts ------------------------------------------------------------------------------------

const [WIDE, HIGH, LEFT, RIGHT, TOP, BELOW] = [320, 130, 46, 8, 8, 18];

// The distance of two marks on an axis: 1, 2 or 5 times a power of ten, or of bytes in a unit.
const stepOf = (most, unit) => {
  const scale = unit ** Math.max(0, Math.floor(Math.log(most / 2) / Math.log(unit)));
  const power = 10 ** Math.floor(Math.log10(most / 2 / scale));
  return scale * power * [1, 2, 5, 10].find((one) => one >= most / 2 / scale / power - 1e-9);
};

// A line chart over time with axes, limits as horizontal lines, and marks at given times. Each
// point shows its value and time under the mouse.
export const Chart = ({ title, points, text, marks = [], limit = null, unit = 10, least = 0.01 }) => {
  const values = points.filter(([, value]) => value !== null && value !== undefined);
  const last = values.length ? text(values[values.length - 1][1]) : "no value";
  const head = h("figcaption", null, h("span", null, title), h("strong", null, last));
  if (values.length < 2) {
    return h("figure", { className: "ha-chart" }, head, h("p", { className: "ha-muted" }, "The line begins with the second collection."));
  }
  const [begin, end] = [values[0][0], values[values.length - 1][0]];
  const most = Math.max(...values.map(([, value]) => value), limit ?? 0);
  const step = Math.max(least, stepOf(most || least, unit));
  const [bottom, right] = [HIGH - BELOW, WIDE - RIGHT];
  const x = (time) => LEFT + ((time - begin) / (end - begin || 1)) * (right - LEFT);
  const y = (value) => bottom - (value / (2 * step)) * (bottom - TOP);
  const line = values.map(([time, value]) => `${x(time).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
  const label = `${title}: from ${text(values[0][1])} to ${last}${limit === null ? "" : `, threshold ${text(limit)}`}`;
  const across = (value, className, more) => h("line", { key: `${className}${value}`, className, x1: LEFT, x2: right, y1: y(value), y2: y(value) }, more);
  const ends = (at) => (at === 0 ? LEFT : (x(values[at - 1][0]) + x(values[at][0])) / 2);
  return h(
    "figure",
    { className: "ha-chart" },
    head,
    h(
      "svg",
      { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": label },
      [0, step, 2 * step].map((value) => [
        across(value, value ? "ha-grid" : "ha-axis"),
        h("text", { key: value, x: LEFT - 4, y: y(value) + 3, textAnchor: "end" }, text(value)),
      ]),
      h("line", { className: "ha-axis", x1: LEFT, x2: LEFT, y1: TOP, y2: bottom }),
      h("polygon", { className: "ha-area", points: `${LEFT},${bottom} ${line} ${right},${bottom}` }),
      limit === null ? null : across(limit, "ha-limit", h("title", null, `Threshold: ${text(limit)}`)),
      h("polyline", { className: "ha-line", points: line }),
      marks
        .filter((time) => time >= begin && time <= end)
        .map((time) =>
          h("line", { key: time, className: "ha-mark", x1: x(time), x2: x(time), y1: TOP, y2: bottom }, h("title", null, `A compaction ended: ${momentText(time)}`)),
        ),
      values.map(([time, value], at) =>
        h(
          "g",
          { key: time, className: "ha-point" },
          h("title", null, `${text(value)}, ${momentText(time)}`),
          h("rect", { x: ends(at), y: TOP, width: (at + 1 < values.length ? ends(at + 1) : right) - ends(at), height: bottom - TOP }),
          h("circle", { cx: x(time), cy: y(value), r: 3 }),
        ),
      ),
      h("text", { x: LEFT, y: HIGH - 4 }, agoText(begin)),
      h("text", { x: right, y: HIGH - 4, textAnchor: "end" }, agoText(end)),
    ),
  );
};
