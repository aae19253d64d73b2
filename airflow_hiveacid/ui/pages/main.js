// The pages about Hive ACID tables. Airflow imports this module and renders the component below.

import { DEFAULT_CONNECTION, Heading, PageLink, React, address, h, listAddress, moved, noteList } from "./parts.js";
import { Compactions } from "./compactions.js";
import { STYLE } from "./style.js";
import { Table } from "./table.js";
import { Tables } from "./tables.js";

const Page = () => {
  const [at, setAt] = React.useState(address);
  React.useEffect(() => {
    const move = () => {
      moved(at);
      setAt(address());
    };
    const events = ["popstate", "hiveacid-moved"];
    events.forEach((event) => globalThis.addEventListener(event, move));
    return () => events.forEach((event) => globalThis.removeEventListener(event, move));
  }, [at]);
  if (!at.table && !at.view) noteList(at);
  return h(
    "div",
    { className: "ha-page", id: "hiveacid-page" },
    h("style", null, STYLE),
    at.table ? h(Table, { key: at.table, name: at.table, connection: at.connection ?? DEFAULT_CONNECTION }) : h(Lists, { at }),
  );
};

const Lists = ({ at }) => {
  const { view } = at;
  const tab = (to, text) => h(PageLink, { to: to ? { view: to } : view ? listAddress() : {}, "aria-current": view === to ? "page" : undefined }, text);
  return h(
    React.Fragment,
    null,
    h("div", { className: "ha-top" }, h(Heading, null, "Hive ACID tables"), h("nav", { className: "ha-tabs", "aria-label": "Pages" }, tab(undefined, "Tables"), tab("compactions", "Compactions"))),
    view === "compactions" ? h(Compactions) : h(Tables, { filters: at }),
  );
};

globalThis["Hive ACID tables"] = Page;
