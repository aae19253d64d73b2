// The list of all tables, with search, sorting, and a link to each table's page. The numbers come
// from `HiveAcidCollectOperator` by way of `ui/web.py`; `operators/reporting/document.py` defines
// their names and their limit of 64 KB.

import { Compacted, Failure, Measured, Notice, PageLink, React, Remedy, State, Wait, countText, dagHref, go, h, refine, rowsOf, secondsOf, shareText, sizeText, spanText, stateOrder, stateText, useAnswer, useReturn } from "./parts.js";

// [heading, value to sort by, content, is a number]
const COLUMNS = [
  ["Table", (row) => row.table, (row) => [h(PageLink, { key: "link", to: place(row) }, row.table), row.origin && h("div", { key: "origin", className: "ha-muted" }, row.origin)], false],
  ["State", (row) => stateOrder.indexOf(row.state), (row) => h(State, { state: row.state }), false],
  ["Deltas", (row) => row.deltas, (row) => countText(row.deltas), true],
  ["Ratio", (row) => row.ratio ?? -1, (row) => shareText(row.ratio), true],
  ["Size", (row) => row.size_bytes, (row) => sizeText(row.size_bytes), true],
  ["Last compaction", (row) => row.last_compaction_s ?? -1, (row) => h(Compacted, { time: row.last_compaction_s }), false],
  ["Due", (row) => row.due, (row) => dueText(row), false],
  ["Why", (row) => whyText(row), (row) => whyText(row), false],
];

const place = (row) => ({ table: row.table, connection: row.connection });

// Several tables have the cause, and the list above the table says it once.
const whyText = (row) => (row.cause === null ? row.why : `cause ${row.cause + 1} above`);

const dueText = (row) => {
  if (!row.due) return "no";
  return row.partitions > 1 ? `${row.due} of ${row.partitions} partitions` : "yes";
};

const compared = (first, second) =>
  typeof first === "string" ? first.localeCompare(second) : first - second;

const databaseOf = (row) => row.table.split(".")[0];

// [heading, key in the address, value of a row, text of a value]
const FILTERS = [
  ["State", "state", (row) => row.state, stateText],
  ["Database", "database", databaseOf, String],
  ["Connection", "connection", (row) => row.connection, String],
];

// `origin` is a row's connection, if there are several.
const withOrigins = (rows) => {
  const isOne = new Set(rows.map((row) => row.connection)).size < 2;
  return rows.map((row) => ({ ...row, origin: isOne ? "" : row.connection }));
};

export const Tables = ({ filters }) => {
  const { answer, error } = useAnswer("hiveacid/tables");
  const [sort, setSort] = React.useState({ at: 1, isUp: true });
  const list = useReturn(Boolean(answer?.collections.length));
  const every = React.useMemo(() => (answer ? withOrigins(rowsOf(answer)) : []), [answer]);
  if (error) return h(Failure, { error });
  if (!answer) return h(Wait);
  if (answer.collections.length === 0) return h(Empty, { collector: answer.collector });
  const words = (filters.search ?? "").toLowerCase().split(/\s+/);
  const value = COLUMNS[sort.at][1];
  const rows = every
    .filter((row) => FILTERS.every(([, key, of]) => !filters[key] || of(row) === filters[key]))
    .filter((row) => words.every((word) => `${row.table} ${stateText(row.state)}`.toLowerCase().includes(word)))
    .sort((a, b) => (sort.isUp ? 1 : -1) * compared(value(a), value(b)) || a.table.localeCompare(b.table));
  return h(
    React.Fragment,
    null,
    h(Summary, { rows, collections: answer.collections.filter((one) => !filters.connection || one.connection === filters.connection) }),
    h(Freshness, { answer }),
    h(Causes, { rows, causes: answer.causes }),
    h(
      "div",
      { className: "ha-bar" },
      h("input", {
        type: "search",
        placeholder: "Search by name or state",
        "aria-label": "Search tables",
        value: filters.search ?? "",
        onChange: (event) => refine({ ...filters, search: event.target.value }),
      }),
      FILTERS.map((filter) => h(Filter, { key: filter[1], filter, every, filters })),
      h(
        "span",
        { className: "ha-muted", role: "status" },
        `${countText(rows.length)} of ${countText(every.length)} tables`,
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

// A list of the values of all rows, without one if they are all the same.
const Filter = ({ filter: [head, key, of, text], every, filters }) => {
  const values = [...new Set([...every.map(of), filters[key]])].filter(Boolean).sort();
  if (values.length < 2 && !filters[key]) return null;
  return h(
    "select",
    { "aria-label": head, value: filters[key] ?? "", onChange: (event) => refine({ ...filters, [key]: event.target.value }) },
    h("option", { value: "" }, `${head}: all`),
    values.map((one) => h("option", { key: one, value: one }, text(one))),
  );
};

const Summary = ({ rows, collections }) => {
  const states = ["blocked", "failed", "due", "unknown"]
    .map((state) => [rows.filter((row) => row.state === state).length, stateText(state).toLowerCase()])
    .filter(([number]) => number)
    .map(([number, text]) => `${countText(number)} ${text}`);
  const open = collections.flatMap((one) => one.oldest.map((txn) => secondsOf(one.measured) - txn.started_s));
  const size = rows.reduce((sum, row) => sum + (row.size_bytes ?? 0), 0);
  const texts = [
    ...(states.length ? states : ["nothing blocked or due"]),
    sizeText(size),
    open.length ? `oldest open transaction ${spanText(Math.max(...open))}` : "no open transaction",
  ];
  return h("p", { className: "ha-summary", id: "hiveacid-summary" }, texts.join(", "));
};

// The causes that several tables share, with the shown tables of each.
const Causes = ({ rows, causes }) => {
  const groups = Map.groupBy(rows.filter((row) => row.cause !== null), (row) => row.cause);
  if (!groups.size) return null;
  return h(
    "ul",
    { className: "ha-findings", id: "hiveacid-causes", "aria-label": "Causes" },
    [...groups].sort(([a], [b]) => a - b).map(([number, tables]) => {
      const { state, what, remedy, connection } = causes[number];
      return h(
        "li",
        { key: number },
        h("span", null, h(State, { state })),
        h(
          "details",
          null,
          h("summary", null, `Cause ${number + 1}, ${tables.length === 1 ? "1 table" : `${countText(tables.length)} tables`}: ${what}`),
          tables.map((row) => h("div", { key: row.table }, h(PageLink, { to: place(row) }, row.table))),
        ),
        remedy ? h("span", { className: "ha-muted" }, "What to do: ", h(Remedy, { text: remedy, connection })) : null,
      );
    }),
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
          className: { Table: "ha-name", Why: "ha-why" }[head] ?? (isNumber ? "ha-number" : ""),
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
