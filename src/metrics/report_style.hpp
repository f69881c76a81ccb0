// metrics/report_style.hpp — the report's style sheet; light and dark by the reader's preference.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cambium::metrics {

inline constexpr const char* kReportStyle = R"css(
:root { color-scheme: light dark;
  --page: #fbfaf7; --card: #ffffff; --ink: #1d2420; --soft: #5d6862; --rule: #e1e3dc; --accent: #2f6b4f;
  --s1: #2563a8; --s2: #c2560c; --s3: #3a7d44; --s4: #8a4fa3; --s5: #b03052; --s6: #5b6472;
  --band0: #2f6b4f14; --band1: #2f6b4f08; --mark: #2f6b4f;
  --f: #7fb2e5; --b: #f2a65a; --w: #8cc084; --c: #b9bfc4; --act-ink: #14202b; }
@media (prefers-color-scheme: dark) { :root {
  --page: #14181a; --card: #1c2224; --ink: #e4e8e3; --soft: #9aa59f; --rule: #333b3c; --accent: #86c9a5;
  --s1: #79b2ee; --s2: #f0a05c; --s3: #8fce94; --s4: #cfa1e3; --s5: #ee8aa4; --s6: #a9b2bd;
  --band0: #86c9a51c; --band1: #86c9a50d; --mark: #86c9a5;
  --f: #4d82b8; --b: #bd7432; --w: #4f8a55; --c: #5b6468; --act-ink: #ffffff; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 28px 20px 64px; }
.brand { margin: 0; color: var(--accent); font-weight: 600; letter-spacing: .04em; }
h1 { margin: 0 0 18px; font-size: 30px; line-height: 1.2; overflow-wrap: anywhere; }
h2 { margin: 0 0 12px; font-size: 19px; }
h3 { margin: 0 0 8px; font-size: 15px; color: var(--soft); font-weight: 600; }
section { background: var(--card); border: 1px solid var(--rule); border-radius: 10px; padding: 18px 20px; margin-top: 18px; }
.tiles { display: flex; flex-wrap: wrap; gap: 10px 34px; }
.tile { color: var(--soft); font-size: 13px; }
.tile b { display: block; color: var(--ink); font-size: 21px; font-weight: 600; font-variant-numeric: tabular-nums; }
.warning { color: var(--s2); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: 6px 12px 6px 0; border-bottom: 1px solid var(--rule); white-space: nowrap; }
th { color: var(--soft); font-weight: 600; white-space: normal; vertical-align: bottom; }
td.wrap { white-space: normal; min-width: 130px; }
th.n, td.n { text-align: right; }
tbody tr:last-child td { border-bottom: 0; }
.good { color: var(--accent); font-weight: 600; }
.none, .key { color: var(--soft); }
code, pre { font: 12.5px/1.5 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }
pre { overflow-x: auto; margin: 12px 0 0; }
summary { cursor: pointer; font-weight: 600; }
.wide + h3 { margin-top: 20px; }
figure { margin: 14px 0 0; }
figcaption { color: var(--soft); font-size: 13px; }
.chart { display: block; width: 100%; height: auto; font-size: 12px; }
.chart text { fill: var(--soft); }
.chart .axis-name { font-weight: 600; }
.grid { stroke: var(--rule); } .axis { stroke: var(--soft); }
.line { fill: none; stroke-width: 1.8; stroke-linejoin: round; }
.series-1 { stroke: var(--s1); } .series-2 { stroke: var(--s2); } .series-3 { stroke: var(--s3); }
.series-4 { stroke: var(--s4); } .series-5 { stroke: var(--s5); } .series-6 { stroke: var(--s6); }
.dot { fill: var(--card); stroke-width: 2; }
.band-0 { fill: var(--band0); } .band-1 { fill: var(--band1); }
.mark { stroke: var(--mark); stroke-width: 1.5; stroke-dasharray: 5 3; }
.chart .mark-name { fill: var(--mark); font-weight: 600; }
.act-f { fill: var(--f); background: var(--f); } .act-b { fill: var(--b); background: var(--b); }
.act-w { fill: var(--w); background: var(--w); } .act-c { fill: var(--c); background: var(--c); }
.chart .act-name { fill: var(--act-ink); font-size: 10.5px; }
.legend { display: flex; flex-wrap: wrap; gap: 6px 20px; margin: 0 0 8px; color: var(--soft); font-size: 13px; }
.legend i { display: inline-block; width: 12px; height: 12px; border-radius: 2px; margin-right: 6px; vertical-align: -1px; }
footer { margin-top: 22px; color: var(--soft); font-size: 13px; }
@media print { body { background: #fff; } section { break-inside: avoid; } }
)css";

}  // namespace cambium::metrics
