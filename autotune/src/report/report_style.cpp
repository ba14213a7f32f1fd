#include "report/report_page.h"

namespace kiln::autotune {

const char* const kReportStyle = R"css(:root {
  --back: #fbfbfa; --panel: #ffffff; --text: #1d2126; --quiet: #666e78; --line: #dfe2e6; --grid: #eceef0;
  --accent: #1f6fb2; --good: #2b8a4b; --bad: #c2402b; --mark: #d9822b;
}
@media (prefers-color-scheme: dark) {
  :root {
    --back: #14171a; --panel: #1c2024; --text: #e4e7ea; --quiet: #98a1ab; --line: #343a41; --grid: #2a2f35;
    --accent: #5ba7e6; --good: #56b878; --bad: #ee7a66; --mark: #f0a95b;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--text); font: 14px/1.45 system-ui, sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 24px 20px 60px; }
h1 { font-size: 22px; margin: 0 0 4px; }
h2 { font-size: 17px; margin: 34px 0 10px; }
h3 { font-size: 13px; margin: 0 0 6px; color: var(--quiet); font-weight: 600; }
.quiet { color: var(--quiet); }
.bad { color: var(--bad); }
.totals { display: flex; flex-wrap: wrap; gap: 10px; margin: 16px 0 4px; }
.total { background: var(--panel); border: 1px solid var(--line); border-radius: 8px; padding: 8px 14px; min-width: 108px; }
.total b { display: block; font-size: 20px; font-variant-numeric: tabular-nums; }
.total span { color: var(--quiet); font-size: 12px; }
.scroll { overflow-x: auto; background: var(--panel); border: 1px solid var(--line); border-radius: 8px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: 5px 10px; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--grid); }
th { color: var(--quiet); font-weight: 600; font-size: 12px; }
tr:last-child td { border-bottom: 0; }
th.left, td.left { text-align: left; }
td.config { text-align: left; font: 12.5px/1.4 ui-monospace, monospace; }
tr.best td { background: color-mix(in srgb, var(--good) 14%, transparent); }
tr.default td { background: color-mix(in srgb, var(--mark) 13%, transparent); }
td.name { text-align: left; white-space: normal; min-width: 170px; overflow-wrap: anywhere; }
td.bar div { display: flex; align-items: center; justify-content: flex-end; gap: 8px; }
td.bar span { width: 56px; flex: none; }
td.bar i { display: block; height: 9px; border-radius: 2px; background: var(--accent); }
.tag { font-size: 11px; padding: 1px 6px; border-radius: 9px; border: 1px solid var(--line); color: var(--quiet); margin-left: 6px; }
a { color: var(--accent); text-decoration: none; }
a:hover { text-decoration: underline; }
details { margin: 14px 0; border: 1px solid var(--line); border-radius: 8px; background: var(--panel); }
summary { cursor: pointer; padding: 10px 14px; font-weight: 600; }
summary span { font-weight: 400; }
details > div { padding: 0 14px 14px; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(340px, 1fr)); gap: 18px; margin: 16px 0; }
.plot { min-width: 0; }
.plot svg { width: 100%; height: auto; display: block; }
svg text { fill: var(--quiet); font-size: 11px; font-family: inherit; }
svg .axis { stroke: var(--line); fill: none; }
svg .grid { stroke: var(--grid); fill: none; }
svg .dot { fill: var(--accent); fill-opacity: .65; }
svg .dot.best { fill: var(--good); fill-opacity: 1; }
svg .dot.default { fill: var(--mark); fill-opacity: 1; }
svg .path { stroke: var(--accent); stroke-width: 2; fill: none; }
svg .equal { stroke: var(--quiet); stroke-dasharray: 4 4; fill: none; }
svg .cell { fill: var(--accent); stroke: var(--panel); }
svg .value { fill: var(--text); text-anchor: middle; }
select, button { font: inherit; color: inherit; background: var(--panel); border: 1px solid var(--line); border-radius: 6px; padding: 2px 8px; }
button { cursor: pointer; margin: 8px 10px; color: var(--accent); }
ul.failures { margin: 12px 0 0; padding-left: 20px; }
ul.failures code { font-size: 12.5px; }
ul.failures pre { margin: 2px 0 8px; white-space: pre-wrap; color: var(--quiet); font-size: 12px; }
@media print { details { break-inside: avoid; } }
)css";

}  // namespace kiln::autotune
