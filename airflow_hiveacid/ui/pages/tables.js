// The list of all tables, with search, sorting, and a link to each table's page. The numbers come
// from `HiveAcidCollectOperator` by way of `ui/web.py`; `operators/collecting/document.py` defines
// their names and their limit of 64 KB.

import { Ago, Failure, Measured, Notice, PageLink, React, State, Wait, countText, dagHref, go, h, shareText, sizeText, stateOrder, stateText, useAnswer, useReturn } from "./parts.js";

// [heading, value to sort by, content, is a number]
const COLUMNS = [
  ["Table", (row) => row.table, (row) => h(PageLink, { to: place(row) }, row.table), false],
  ["State", (row) => stateOrder.indexOf(row.state), (row) => h(State, { state: row.state }), false],
  ["Deltas", (row) => row.deltas, (row) => countText(row.deltas), true],
  ["Ratio", (row) => row.ratio ?? -1, (row) => shareText(row.ratio), true],
  ["Size", (row) => row.size_bytes, (row) => sizeText(row.size_bytes), true],
  ["Last compaction", (row) => row.last_compaction_s ?? 0, (row) => h(Ago, { time: row.last_compaction_s, none: "unknown" }), false],
  ["Due", (row) => row.due, (row) => dueText(row), false],
  ["Why", (row) => row.why, (row) => row.why, false],
];

const place = (row) => ({ table: row.table, connection: row.connection });

const dueText = (row) => {
  if (!row.due) return "no";
  return row.partitions > 1 ? `${row.due} of ${row.partitions} partitions` : "yes";
};

const compared = (first, second) =>
  typeof first === "string" ? first.localeCompare(second) : first - second;

export const Tables = () => {
  const { answer, error } = useAnswer("hiveacid/tables");
  const [search, setSearch] = React.useState("");
  const [sort, setSort] = React.useState({ at: 1, isUp: true });
  const list = useReturn(Boolean(answer?.collections.length));
  if (error) return h(Failure, { error });
  if (!answer) return h(Wait);
  if (answer.collections.length === 0) return h(Empty, { collector: answer.collector });
  const words = search.toLowerCase().split(/\s+/);
  const value = COLUMNS[sort.at][1];
  const rows = answer.tables
    .filter((row) => words.every((word) => `${row.table} ${stateText(row.state)}`.toLowerCase().includes(word)))
    .sort((a, b) => (sort.isUp ? 1 : -1) * compared(value(a), value(b)) || a.table.localeCompare(b.table));
  return h(
    React.Fragment,
    null,
    h(Freshness, { answer }),
    h(
      "div",
      { className: "ha-bar" },
      h("input", {
        type: "search",
        placeholder: "Search by name or state",
        "aria-label": "Search tables",
        value: search,
        onChange: (event) => setSearch(event.target.value),
      }),
      h(
        "span",
        { className: "ha-muted", role: "status" },
        `${countText(rows.length)} of ${countText(answer.tables.length)} tables`,
      ),
    ),
    h(
      "div",
      { className: "ha-scroll", ref: list },
      h(
        "table",
        { className: "ha-table ha-rows", id: "hiveacid-tables" },
        h("thead", null, h("tr", null, COLUMNS.map(([head, , , isNumber], at) => h(Head, { key: head, head, at, isNumber, sort, setSort })))),
        h("tbody", null, rows.map((row) => h(Row, { key: `${row.connection} ${row.table}`, row }))),
      ),
    ),
  );
};

const Head = ({ head, at, isNumber, sort, setSort }) =>
  h(
    "th",
    {
      scope: "col",
      className: isNumber ? "ha-number" : "",
      "aria-sort": sort.at === at ? (sort.isUp ? "ascending" : "descending") : "none",
    },
    h(
      "button",
      // The first click on a column of numbers sorts the highest number first.
      { type: "button", onClick: () => setSort({ at, isUp: sort.at === at ? !sort.isUp : !isNumber }) },
      head,
    ),
  );

const Row = React.memo(({ row }) =>
  h(
    "tr",
    { onClick: (event) => event.target.closest("a") ?? go(place(row)) },
    COLUMNS.map(([head, , content, isNumber], at) =>
      h(
        "td",
        {
          key: head,
          className: head === "Why" ? "ha-why" : isNumber ? "ha-number" : "",
          "data-head": at > 1 && head !== "Why" ? head : undefined,
        },
        content(row),
      ),
    ),
  ),
);

const Empty = ({ collector }) =>
  h(
    React.Fragment,
    null,
    h(LastFailures, { collector }),
    h(
      Notice,
      { id: "hiveacid-empty" },
      collector.exists
        ? h(
            React.Fragment,
            null,
            "No numbers are stored yet. ",
            collector.is_paused ? "Unpause the DAG " : "Wait for the next run of the DAG ",
            h("a", { href: dagHref(collector.dag_id) }, collector.dag_id),
            ", or trigger it: it measures all tables and starts no Spark.",
          )
        : `You see no numbers: the DAG ${collector.dag_id} is missing, or you may not read it. Add the DAGs of this provider to Airflow, or write a DAG with HiveAcidCollectOperator.`,
    ),
  );

const Freshness = ({ answer }) => {
  const missing = answer.collections.reduce((sum, one) => sum + (one.left_out.tables ?? 0), 0);
  return h(
    React.Fragment,
    null,
    h(LastFailures, { collector: answer.collector }),
    h("p", null, h(Measured, { collections: answer.collections })),
    missing
      ? h(Notice, null, `${countText(missing)} tables did not fit into the stored numbers. Collect fewer tables in each task: set \`tables\` of HiveAcidCollectOperator.`)
      : null,
  );
};

const LastFailures = ({ collector }) =>
  collector.failed.map((one) =>
    h(
      Notice,
      { kind: "error", key: one.dag_id, id: "hiveacid-collector-failed" },
      "The last collection failed: ",
      h("a", { href: dagHref(one.dag_id, one.run_id) }, `${one.dag_id}, ${one.run_id}`),
      ". Its log has the reason.",
    ),
  );
