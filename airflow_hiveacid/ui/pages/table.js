// The page of one table: why it is not compacted, and its numbers, directories, writers and
// versions.

import { Ago, Chart, Compacted, Failure, Grid, Heading, JobLink, Notice, PageLink, React, Remedy, State, Wait, ago, ask, countText, dagHref, h, listAddress, momentText, secondsOf, shareText, sizeText, spanText, useAnswer } from "./parts.js";
import { queueColumns } from "./compactions.js";

export const Table = ({ name, connection }) => {
  const query = new URLSearchParams({ name, connection });
  const { answer, error } = useAnswer(`hiveacid/table?${query}`);
  const { answer: every, error: hidden } = useAnswer("hiveacid/owners");
  const owners = { ...every?.[connection], isHidden: Boolean(hidden) };
  const row = answer?.row;
  const about = row ? [h(State, { key: "state", state: row.state }), h("span", { key: "age", className: "ha-muted" }, "measured ", h(Ago, { time: row.measured }))] : null;
  return h(
    React.Fragment,
    null,
    h("p", null, h(PageLink, { to: listAddress() }, "All tables")),
    h("div", { className: "ha-top" }, h(Heading, null, name), about),
    error ? h(NoTable, { error }) : answer ? h(Known, { answer, owners }) : h(Wait),
  );
};

const NoTable = ({ error }) =>
  error.status === 404 ? h(Notice, { id: "hiveacid-missing" }, `${error.message}.`) : h(Failure, { error });

const SECTIONS = ["Plan", "Open transactions", "Locks", "Directories", "Versions", "Tags", "Compactions"];
const idOf = (title) => `hiveacid-${title.toLowerCase().replace(" ", "-")}`;

const Title = ({ children }) => h("h2", { id: idOf(children) }, children);

// The address of a section is the page's own, since Airflow's <base> leads elsewhere.
const Jumps = ({ titles }) => {
  React.useEffect(() => {
    document.getElementById(globalThis.location.hash.slice(1))?.scrollIntoView();
  }, []);
  const { pathname, search } = globalThis.location;
  const link = (title) => h("a", { key: title, href: `${pathname}${search}#${idOf(title)}` }, title);
  return h("nav", { className: "ha-tabs ha-jumps", "aria-label": "Sections" }, titles.map(link));
};

const Known = ({ answer, owners }) => {
  const { row, details } = answer;
  return h(
    React.Fragment,
    null,
    h(Numbers, { row }),
    h(Operations, { row, dag: answer.operations }),
    h(Jumps, { titles: ["Why", "Over time", ...(details ? SECTIONS : [])] }),
    h(Title, null, "Why"),
    details ? h(Findings, { findings: details.findings, connection: row.connection }) : h("p", null, row.why || "Nothing blocks it."),
    h(Title, null, "Over time"),
    h(Charts, { answer }),
    details
      ? h(Details, { details, owners })
      : h(Notice, null, "The details of this table did not fit into the stored numbers. Collect fewer tables in each task: set `tables` of HiveAcidCollectOperator."),
  );
};

const Numbers = ({ row }) =>
  h(
    "dl",
    { className: "ha-numbers" },
    [
      ["Deltas", countText(row.deltas)],
      ["Delta ratio", shareText(row.ratio)],
      ["Size", sizeText(row.size_bytes)],
      ["Partitions", countText(row.partitions)],
      ["Obsolete", countText(row.obsolete)],
      ["Last compaction", h(Compacted, { time: row.last_compaction_s })],
    ].map(([head, value]) => h("div", { key: head }, h("dt", null, head), h("dd", null, value))),
  );

const CHOICES = { auto: "by thresholds", minor: "minor", major: "major" };

// What a button asks before it starts a run: one question, or two if the run removes files.
const QUESTIONS = {
  plan: ["List what a compaction would do? This changes nothing."],
  compact: ["Compact this table now? Readers and writers go on meanwhile."],
  clean: [
    "Remove the files that no reader needs any more? Past versions that need them become unreadable.",
    "Removed files cannot be restored. Remove them?",
  ],
};

// Each button asks Airflow's API to run the operations DAG; the API checks the user's rights.
const Operations = ({ row, dag }) => {
  const [choice, setChoice] = React.useState("auto");
  const [asked, setAsked] = React.useState(null);
  const [started, setStarted] = React.useState(null);
  const start = (action) => {
    setStarted({ action, text: `Requesting ${action} ...` });
    ask(`api/v2/dags/${dag.dag_id}/dagRuns`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({
        logical_date: null,
        conf: { action, table: row.table, choice, connection: row.connection },
      }),
    })
      .then((run) => setStarted({ action, run: run.dag_run_id }))
      .catch((error) =>
        setStarted({
          kind: "error",
          text: error.status === 403 ? `You may not trigger the DAG ${dag.dag_id} (HTTP 403).` : `Airflow did not start ${action}: ${error.message}`,
        }),
      );
  };
  const close = () => {
    document.getElementById(`hiveacid-${asked.action}`).focus();
    setAsked(null);
  };
  const answered = () => {
    const { action, number } = asked;
    if (number + 1 < QUESTIONS[action].length) {
      setAsked({ action, number: number + 1 });
      return;
    }
    close();
    start(action);
  };
  const button = (action, text) =>
    h("button", { type: "button", className: "ha-button", key: action, disabled: !dag.exists, id: `hiveacid-${action}`, onClick: () => setAsked({ action, number: 0 }) }, text);
  return h(
    React.Fragment,
    null,
    h(
      "div",
      { className: "ha-bar" },
      button("plan", "Plan"),
      button("compact", "Compact"),
      h(
        "select",
        { "aria-label": "Kind of compaction", value: choice, onChange: (event) => setChoice(event.target.value) },
        Object.entries(CHOICES).map(([value, text]) => h("option", { key: value, value }, text)),
      ),
      button("clean", "Clean"),
      dag.exists ? null : h("span", { className: "ha-muted" }, `The DAG ${dag.dag_id} is missing, or you may not read it.`),
      dag.is_paused ? h("span", { className: "ha-muted" }, `The DAG ${dag.dag_id} is paused: unpause it first.`) : null,
    ),
    asked ? h(Question, { key: `${asked.action}${asked.number}`, table: row.table, asked, onYes: answered, onNo: close }) : null,
    started?.text ? h(Notice, { kind: started.kind, id: "hiveacid-said" }, started.text) : null,
    started?.run ? h(Progress, { key: started.run, dag: dag.dag_id, ...started }) : null,
  );
};

const Question = ({ table, asked, onYes, onNo }) => {
  const here = React.useRef(null);
  React.useEffect(() => here.current.focus(), []);
  return h(
    "div",
    {
      className: "ha-notice ha-info",
      id: "hiveacid-question",
      role: "group",
      "aria-label": "Question",
      tabIndex: -1,
      ref: here,
      onKeyDown: (event) => event.key === "Escape" && onNo(),
    },
    h("p", null, h("strong", null, table), ": ", QUESTIONS[asked.action][asked.number]),
    h(
      "div",
      { className: "ha-bar" },
      h("button", { type: "button", className: "ha-button", id: "hiveacid-yes", onClick: onYes }, `Yes, ${asked.action}`),
      h("button", { type: "button", className: "ha-button", onClick: onNo }, "No"),
    ),
  );
};

const POLL_MS = 3000;
const ENDED = ["success", "failed"];

const resultOf = async (path) => {
  const { value } = await ask(path);
  return typeof value === "string" ? JSON.parse(value) : value;
};

// The state of a run until it has ended, and then its result.
const Progress = ({ dag, run, action }) => {
  const [seen, see] = React.useState({ state: "queued" });
  React.useEffect(() => {
    const path = `api/v2/dags/${dag}/dagRuns/${encodeURIComponent(run)}`;
    const began = Date.now();
    let timer;
    let current = true;
    const look = async () => {
      let next;
      try {
        const { state } = await ask(path);
        next = { state, took_s: (Date.now() - began) / 1000 };
        if (state === "success") {
          next.result = await resultOf(`${path}/taskInstances/${action}/xcomEntries/return_value`).catch(() => null);
        }
      } catch (error) {
        next = { state: "unknown", error };
      }
      if (!current) return;
      see(next);
      if (!ENDED.includes(next.state) && next.error?.status !== 403) timer = setTimeout(look, POLL_MS);
    };
    look();
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, []);
  const { state, took_s: took, error, result } = seen;
  const link = h("a", { href: dagHref(dag, run) }, run);
  return h(
    React.Fragment,
    null,
    h(
      Notice,
      { kind: state === "failed" ? "error" : "info", id: "hiveacid-said" },
      `${action}: ${error ? `its state is unknown (${error.message})` : state}${took && !ENDED.includes(state) ? `, requested ${spanText(took)} ago` : ""}. Run: `,
      link,
      state === "failed" ? ". Its log has the reason." : null,
      state === "success" ? h("div", null, result ? resultText(result) : "The run has no result, or you may not read it.", action === "plan" ? "" : " The numbers on this page are older; the next collection measures again.") : null,
    ),
    Array.isArray(result?.details?.compactions) && result.details.compactions.length ? h(Grid, { label: "Result", columns: RESULT, rows: result.details.compactions, leftOut: result.details.compactions_omitted }) : null,
  );
};

const resultText = (result) => {
  const files = result.files ? `, ${countText(result.files)} files, ${sizeText(result.size_bytes)}` : "";
  return `Result: ${String(result.status).replaceAll("_", " ")}${files}.`;
};

const RESULT = [
  ["Partition", (one) => one.partition || "(table)"],
  ["Compaction", (one) => one.kind],
  ["Why", (one) => one.why],
  ["Before", (one) => sizeText(one.bytes_in), true],
  ["After", (one) => (one.done ? sizeText(one.bytes_out) : ""), true],
  ["Rows", (one) => (one.done ? countText(one.rows) : ""), true],
];

const Findings = ({ findings, connection }) =>
  h(
    "ul",
    { className: "ha-findings" },
    findings.map((one, at) =>
      h(
        "li",
        { key: at },
        h("span", null, h(State, { state: one.state })),
        h("span", null, one.what),
        one.remedy ? h("span", { className: "ha-muted" }, "What to do: ", h(Remedy, { text: one.remedy, connection })) : null,
      ),
    ),
  );

const Charts = ({ answer: { history, details, row } }) => {
  const points = (name) => history.map((one) => [secondsOf(one.measured), one[name]]);
  const marks = (details?.compactions ?? []).map((one) => one.ended_s).filter(Boolean);
  const { delta_count: count = null, delta_ratio: ratio = null } = details?.thresholds[0] ?? {};
  const texts = [count === null ? "" : `${countText(count)} deltas`, ratio === null ? "" : shareText(ratio)].filter(Boolean);
  // The lines show sums of all partitions, but a threshold applies to each partition.
  const isWhole = row.partitions === 1;
  return h(
    React.Fragment,
    null,
    h(
      "div",
      { className: "ha-charts" },
      h(Chart, { title: "Deltas", points: points("deltas"), text: countText, marks, limit: isWhole ? count : null, least: 1 }),
      h(Chart, { title: "Delta ratio", points: points("ratio"), text: shareText, marks, limit: isWhole ? ratio : null }),
      h(Chart, { title: "Size", points: points("size_bytes"), text: sizeText, marks, unit: 1024, least: 1 }),
    ),
    h(
      "p",
      { className: "ha-muted" },
      marks.length ? "Green lines: compactions that ended. " : "",
      texts.length && isWhole ? "Red lines: thresholds of a compaction." : "",
      texts.length && !isWhole ? `A partition is due from ${texts.join(" or ")}.` : "",
    ),
  );
};

const OWNER_HIDDEN = "hidden";

const Details = ({ details, owners }) => {
  const owner = (one) => (owners.isHidden ? OWNER_HIDDEN : (owners.owners?.[one.txn_id] ?? ""));
  const job = (one) => h(JobLink, { job: one.job });
  const part = (one) => one.partition || "(table)";
  const section = (title, key, columns, none) =>
    h(
      React.Fragment,
      { key },
      h(Title, null, title),
      h(Grid, { label: title, columns, rows: details[key], none, leftOut: details.left_out[key] }),
    );
  return [
    section("Plan", "plan", [["Partition", part], ["Compaction", (one) => one.kind], ["Why", (one) => one.why]], "The table has no partition."),
    section(
      "Open transactions",
      "transactions",
      [
        ["ID", (one) => one.txn_id, true],
        ["Task", job],
        ["Open since", (one) => ago(one.started_s)],
        ["Heartbeat", (one) => ago(one.heartbeat_s)],
        ["Owner", owner],
      ],
      "No open transaction has a lock on the table.",
    ),
    section(
      "Locks",
      "locks",
      [
        ["Lock", (one) => one.lock_id, true],
        ["Partition", part],
        ["Type", (one) => one.kind],
        ["State", (one) => (one.blocked_by ? `${one.state}, behind ${one.blocked_by}` : one.state)],
        ["Transaction", (one) => one.txn_id ?? "", true],
        ["Task", job],
      ],
      "No locks.",
    ),
    section(
      "Directories",
      "directories",
      [
        ["Partition", part],
        ["Directory", (one) => one.name],
        ["Type", (one) => one.kind],
        ["Write IDs", writeIdsText, true],
        ["State", (one) => one.state],
        ["Rows", (one) => countText(one.rows), true],
        ["Size", (one) => sizeText(one.size_bytes), true],
      ],
      "The table has no directories yet.",
    ),
    section(
      "Versions",
      "versions",
      [
        ["Version", (one) => one.number, true],
        ["Committed", (one) => ago(one.committed_s)],
        ["Operation", (one) => one.operation],
        ["Rows", rowsText],
        ["By", (one) => h(JobLink, { job: one.by })],
        ["Readable", (one) => (one.is_readable ? "yes" : one.tags.length ? "by tag" : "no")],
        ["Tags", (one) => one.tags.join(", ")],
      ],
      "The table has no version yet.",
    ),
    section(
      "Tags",
      "tags",
      [
        ["Tag", (one) => one.name],
        ["Version", (one) => one.version, true],
        ["Expires", (one) => (one.expires_s ? momentText(one.expires_s) : "never")],
      ],
      "No tags.",
    ),
    section("Compactions", "compactions", queueColumns(() => owners.workers), "The queue has no entry of this table."),
  ];
};

const writeIdsText = (one) => {
  if (one.kind === "base") return `to ${one.high}`;
  return one.low === one.high ? one.high : `${one.low} to ${one.high}`;
};

const rowsText = (one) =>
  [
    ["+", one.inserted],
    ["~", one.updated],
    ["-", one.deleted],
  ]
    .filter(([, rows]) => rows)
    .map(([sign, rows]) => `${sign}${countText(rows)}`)
    .join(" ");
