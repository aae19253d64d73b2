// The pages' style. Colours are tokens of Airflow's theme, which differ between light and dark.

const color = (name) => `var(--chakra-colors-${name})`;

const tone = (name) =>
  `.ha-page .ha-${name} { color: ${color(`${name}-fg`)}; background: ${color(`${name}-subtle`)}; }`;

export const STYLE = `
.ha-page { padding: 1rem 1.25rem 3rem; color: ${color("fg")}; font-size: 0.875rem; line-height: 1.45; max-width: 90rem; }
.ha-page h1 { font-size: 1.375rem; font-weight: 600; overflow-wrap: anywhere; }
.ha-page h2 { font-size: 1rem; font-weight: 600; margin: 1.75rem 0 0.5rem; }
.ha-page a { color: ${color("blue-fg")}; }
.ha-page a:hover { text-decoration: underline; }
.ha-page :focus-visible { outline: 2px solid ${color("blue-focus-ring")}; outline-offset: 1px; border-radius: 3px; }
.ha-muted { color: ${color("fg-muted")}; }
.ha-top { display: flex; flex-wrap: wrap; gap: 0.5rem 1.5rem; align-items: baseline; margin-bottom: 0.75rem; }
.ha-tabs { display: flex; gap: 1rem; }
.ha-tabs a { padding: 0.25rem 0; color: ${color("fg-muted")}; }
.ha-tabs a[aria-current] { color: ${color("fg")}; font-weight: 600; box-shadow: 0 2px ${color("blue-solid")}; }
.ha-bar { display: flex; flex-wrap: wrap; gap: 0.5rem 1rem; align-items: center; margin: 0.75rem 0; }
.ha-bar input, .ha-page select { border: 1px solid ${color("border-emphasized")}; border-radius: 0.375rem; background: ${color("bg")}; padding: 0.35rem 0.6rem; }
.ha-bar input { width: 18rem; max-width: 100%; }
.ha-button { border: 1px solid ${color("border-emphasized")}; border-radius: 0.375rem; padding: 0.35rem 0.9rem; background: ${color("bg")}; cursor: pointer; font-weight: 500; }
.ha-button:hover:not(:disabled) { background: ${color("bg-muted")}; }
.ha-button:disabled { opacity: 0.5; cursor: not-allowed; }
.ha-notice { border-radius: 0.375rem; padding: 0.6rem 0.9rem; margin: 0.75rem 0; }
.ha-info { background: ${color("bg-muted")}; }
.ha-page .ha-error { color: ${color("red-fg")}; background: ${color("red-subtle")}; }
.ha-page .ha-error a { color: inherit; text-decoration: underline; }
.ha-badge { border-radius: 1rem; padding: 0.1rem 0.6rem; font-weight: 500; font-size: 0.8125rem; white-space: nowrap; }
${["red", "orange", "gray", "blue", "green"].map(tone).join("\n")}
.ha-scroll { overflow-x: auto; border: 1px solid ${color("border")}; border-radius: 0.5rem; }
.ha-scroll > p { padding: 0.4rem 0.75rem; }
.ha-table { width: 100%; border-collapse: collapse; }
.ha-table th { text-align: left; font-weight: 600; background: ${color("bg-muted")}; white-space: nowrap; }
.ha-table th, .ha-table td { padding: 0.4rem 0.75rem; border-bottom: 1px solid ${color("border")}; vertical-align: top; }
.ha-table tbody tr:last-child td { border-bottom: 0; }
.ha-table .ha-number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.ha-table td time { white-space: nowrap; }
.ha-table th button { font-weight: 600; cursor: pointer; }
.ha-table th button::after { content: "\\2195"; opacity: 0.35; margin-left: 0.3rem; }
.ha-table th[aria-sort="ascending"] button::after { content: "\\2191"; opacity: 1; }
.ha-table th[aria-sort="descending"] button::after { content: "\\2193"; opacity: 1; }
.ha-rows tbody tr { cursor: pointer; }
.ha-rows tbody tr:hover { background: ${color("bg-subtle")}; }
.ha-name { min-width: 11rem; overflow-wrap: anywhere; }
.ha-why { min-width: 13rem; color: ${color("fg-muted")}; overflow-wrap: anywhere; }
.ha-summary { font-size: 1.0625rem; font-weight: 600; }
.ha-page code { background: ${color("bg-muted")}; padding: 0 0.25rem; border-radius: 0.25rem; overflow-wrap: anywhere; }
.ha-copy { border: 1px solid ${color("border-emphasized")}; border-radius: 0.25rem; padding: 0 0.4rem; margin: 0 0.35rem; font-size: 0.75rem; cursor: pointer; }
.ha-findings summary { cursor: pointer; }
.ha-jumps { flex-wrap: wrap; gap: 0.25rem 1rem; margin-top: 1rem; border-bottom: 1px solid ${color("border")}; }
.ha-numbers { display: flex; flex-wrap: wrap; gap: 0.75rem; margin: 0.75rem 0; }
.ha-numbers div { border: 1px solid ${color("border")}; border-radius: 0.5rem; padding: 0.5rem 0.9rem; min-width: 7rem; }
.ha-numbers dt { color: ${color("fg-muted")}; font-size: 0.8125rem; }
.ha-numbers dd { font-size: 1.125rem; font-weight: 600; }
.ha-charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(15rem, 1fr)); gap: 0.75rem; }
.ha-chart { border: 1px solid ${color("border")}; border-radius: 0.5rem; padding: 0.6rem 0.9rem; }
.ha-chart figcaption { display: flex; justify-content: space-between; color: ${color("fg-muted")}; }
.ha-chart strong { color: ${color("fg")}; font-weight: 600; }
.ha-chart svg { width: 100%; height: auto; }
.ha-chart text { fill: ${color("fg-muted")}; font-size: 9px; }
.ha-axis { stroke: ${color("border-emphasized")}; }
.ha-grid { stroke: ${color("border")}; }
.ha-limit { stroke: ${color("red-solid")}; stroke-dasharray: 6 3; }
.ha-point rect { fill: transparent; }
.ha-point circle { fill: ${color("blue-solid")}; opacity: 0; }
.ha-point:hover circle { opacity: 1; }
.ha-line { fill: none; stroke: ${color("blue-solid")}; stroke-width: 1.75; stroke-linejoin: round; }
.ha-area { fill: ${color("blue-solid")}; opacity: 0.12; }
.ha-mark { stroke: ${color("green-solid")}; stroke-dasharray: 3 2; }
.ha-findings { display: grid; gap: 0.5rem; }
.ha-findings li { display: grid; grid-template-columns: 7.5rem 1fr; gap: 0.25rem 0.75rem; border: 1px solid ${color("border")}; border-radius: 0.5rem; padding: 0.5rem 0.9rem; overflow-wrap: anywhere; }
.ha-findings .ha-muted { grid-column: 2; }
@media (max-width: 40rem) {
  .ha-page { padding: 0.75rem 0.5rem 2rem; }
  .ha-bar input { width: 100%; }
  .ha-rows thead { position: absolute; clip-path: inset(50%); width: 1px; height: 1px; overflow: hidden; }
  .ha-rows thead:focus-within { position: static; clip-path: none; width: auto; height: auto; }
  .ha-rows thead:focus-within tr { display: flex; flex-wrap: wrap; }
  .ha-rows tbody tr { display: grid; grid-template-columns: 1fr 1fr; gap: 0.1rem 0.75rem; padding: 0.6rem 0.75rem; border-bottom: 1px solid ${color("border")}; }
  .ha-rows tbody td { border: 0; padding: 0; text-align: left !important; min-width: 0; }
  .ha-rows tbody td[data-head]::before { content: attr(data-head) " "; color: ${color("fg-muted")}; }
  .ha-rows tbody td.ha-why, .ha-rows tbody td:first-child { grid-column: 1 / -1; overflow-wrap: anywhere; }
  .ha-rows tbody td.ha-why:empty { display: none; }
  .ha-findings li { grid-template-columns: 1fr; justify-items: start; }
  .ha-findings .ha-muted { grid-column: 1; }
}
`;
