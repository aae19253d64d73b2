// The metastore's compaction queue: waiting compactions, and running compactions with their
// workers.

import { Failure, Grid, Measured, PageLink, React, Wait, ago, countText, h, rowsOf, spanText, useAnswer } from "./parts.js";

const tookText = (one) => {
  if (!one.started_s) return "";
  return spanText((one.ended_s ?? Date.now() / 1000) - one.started_s);
};

const workerText = (one, workers) => {
  if (one.is_ours) return "this provider";
  const known = workers(one);
  return known ? (known[one.entry_id] ?? "") : one.started_s ? "hidden" : "";
};

// `workers` returns the workers of the metastore whose queue has the given entry.
export const queueColumns = (workers) => [
  ["ID", (one) => one.entry_id ?? "", true],
  ["Partition", (one) => one.partition || "(table)"],
  ["Kind", (one) => one.kind],
  ["State", (one) => one.state],
  ["Requested", (one) => ago(one.enqueued_s)],
  ["Takes", tookText, true],
  ["Worker", (one) => workerText(one, workers)],
];

export const Compactions = () => {
  const { answer, error } = useAnswer("hiveacid/tables");
  const owners = useAnswer("hiveacid/owners");
  if (error) return h(Failure, { error });
  if (!answer) return h(Wait);
  const states = Map.groupBy(answer.queue, (one) => one.state);
  const [id, ...others] = queueColumns((one) => owners.answer?.[one.connection]?.workers);
  const known = new Set(rowsOf(answer).map((row) => `${row.connection} ${row.table}`));
  const name = (one) =>
    known.has(`${one.connection} ${one.table}`)
      ? h(PageLink, { to: { table: one.table, connection: one.connection } }, one.table)
      : one.table;
  return h(
    React.Fragment,
    null,
    h(
      "p",
      { className: "ha-muted ha-bar" },
      answer.collections.length ? h(Measured, { collections: answer.collections }) : null,
      [...states].map(([state, entries]) => `${countText(entries.length)} ${state}`).join(", "),
    ),
    h(Grid, {
      label: "Compaction queue",
      columns: [id, ["Table", name], ...others],
      rows: answer.queue,
      none: "The compaction queue is empty.",
      leftOut: answer.queue_left_out,
    }),
  );
};
