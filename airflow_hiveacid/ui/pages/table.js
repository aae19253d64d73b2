// The page of one table: why it is not compacted, and its numbers, directories, writers and
// versions.

import { Ago, Chart, Failure, Grid, Heading, JobLink, Notice, PageLink, React, State, Wait, ago, ask, countText, dagHref, h, momentText, secondsOf, shareText, sizeText, useAnswer } from "./parts.js";
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
    h("p", null, h(PageLink, { to: {} }, "All tables")),
    h("div", { className: "ha-top" }, h(Heading, null, name), about),
    error ? h(NoTable, { error }) : answer ? h(Known, { answer, owners }) : h(Wait),
  );
};

const NoTable = ({ error }) =>
  error.status === 404 ? h(Notice, { id: "hiveacid-missing" }, `${error.message}.`) : h(Failure, { error });

const Known = ({ answer, owners }) => {
  const { row, details } = answer;
  return h(
    React.Fragment,
    null,
    h(Numbers, { row }),
    h(Operations, { row, dag: answer.operations }),
    h("h2", null, "Why is it stuck?"),
    details ? h(Findings, { findings: details.findings }) : h("p", null, row.why || "Nothing blocks it."),
    h("h2", null, "Over time"),
    h(Charts, { history: answer.history, details }),
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
      ["Last compaction", h(Ago, { time: row.last_compaction_s, none: "unknown" })],
    ].map(([head, value]) => h("div", { key: head }, h("dt", null, head), h("dd", null, value))),
  );

const CHOICES = { auto: "by thresholds", minor: "minor", major: "major" };

// Each button asks Airflow's API to run the operations DAG; the API checks the user's rights.
const Operations = ({ row, dag }) => {
  const [choice, setChoice] = React.useState("auto");
  const [said, say] = React.useState(null);
  const start = (action) => {
    say({ text: `Requesting ${action} ...` });
    ask(`api/v2/dags/${dag.dag_id}/dagRuns`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({
        logical_date: null,
        conf: { action, table: row.table, choice, connection: row.connection },
      }),
    })
      .then((run) => say({ text: `Requested ${action}: `, run: run.dag_run_id }))
      .catch((error) =>
        say({
          kind: "error",
          text: error.status === 403 ? `You may not trigger the DAG ${dag.dag_id} (HTTP 403).` : `Airflow did not start ${action}: ${error.message}`,
        }),
      );
  };
  const button = (action, text) =>
    h("button", { type: "button", className: "ha-button", key: action, disabled: !dag.exists, id: `hiveacid-${action}`, onClick: () => start(action) }, text);
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
    said
      ? h(Notice, { kind: said.kind, id: "hiveacid-said" }, said.text, said.run ? h("a", { href: dagHref(dag.dag_id, said.run) }, said.run) : null)
      : null,
  );
};

const Findings = ({ findings }) =>
  h(
    "ul",
    { className: "ha-findings" },
    findings.map((one, at) =>
      h(
        "li",
        { key: at },
        h("span", null, h(State, { state: one.state })),
        h("span", null, one.what),
        one.remedy ? h("span", { className: "ha-muted" }, `What to do: ${one.remedy}`) : null,
      ),
    ),
  );

const Charts = ({ history, details }) => {
  const points = (name) => history.map((one) => [secondsOf(one.measured), one[name]]);
  const marks = (details?.compactions ?? []).map((one) => one.ended_s).filter(Boolean);
  return h(
    React.Fragment,
    null,
    h(
      "div",
      { className: "ha-charts" },
      h(Chart, { title: "Deltas", points: points("deltas"), text: countText, marks }),
      h(Chart, { title: "Delta ratio", points: points("ratio"), text: shareText, marks }),
      h(Chart, { title: "Size", points: points("size_bytes"), text: sizeText, marks }),
    ),
    marks.length ? h("p", { className: "ha-muted" }, "Dashed lines: compactions that ended.") : null,
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
      h("h2", null, title),
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
