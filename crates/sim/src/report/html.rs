//! One page, nothing to load: the chart, the comparison, every decision with its whole chain.

use std::fmt::Write as _;

use super::{
    Report, Run,
    chart::{self, Place, escape},
    text::{ROWS, moved, number},
};

const STYLE: &str = "\
:root{color-scheme:light dark;--ground:#f4f6f9;--card:#fff;--ink:#1f2430;--soft:#5d6675;--line:#dfe4ec;--best:#155e3b}\
@media (prefers-color-scheme:dark){:root{--ground:#0f1318;--card:#14181f;--ink:#e8ebf0;--soft:#a2abba;--line:#2b323d;--best:#7fd6a8}}\
*{box-sizing:border-box}body{margin:0 auto;max-width:1080px;padding:24px 20px 60px;background:var(--ground);color:var(--ink);font:15px/1.5 system-ui,sans-serif}\
h1{font-size:22px;margin:0 0 4px}h2{font-size:17px;margin:28px 0 8px}p{margin:0 0 12px;color:var(--soft);white-space:pre-line}\
section,figure{background:var(--card);border:1px solid var(--line);border-radius:8px;margin:16px 0;padding:12px 14px;overflow-x:auto}\
svg{display:block;width:100%;min-width:640px;height:auto}\
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}th,td{padding:5px 10px;text-align:left;border-bottom:1px solid var(--line);vertical-align:top}\
thead th{color:var(--soft);font-weight:600}td.n,th.n{text-align:right;white-space:nowrap}td.best{color:var(--best);font-weight:600}\
details summary{cursor:pointer}pre{margin:6px 0 4px;white-space:pre-wrap;font:12.5px/1.5 ui-monospace,monospace;color:var(--soft)}\
#tip{position:fixed;z-index:2;max-width:420px;padding:8px 11px;border-radius:6px;background:var(--ink);color:var(--card);font-size:13px;white-space:pre-line;pointer-events:none;opacity:0;transition:opacity .08s}\
#tip.on{opacity:1}\
";

/// Titles become tips that appear at once and follow the keyboard too; without scripts the browser's own tips remain.
const SCRIPT: &str = "\
const tip=document.getElementById('tip');\
for(const g of document.querySelectorAll('.change[tabindex]')){\
const title=g.querySelector('title');const text=title.textContent;title.remove();g.setAttribute('aria-label',text);\
const show=()=>{tip.textContent=text;const r=g.getBoundingClientRect();tip.classList.add('on');\
const w=tip.offsetWidth,h=tip.offsetHeight;\
tip.style.left=Math.max(8,Math.min(innerWidth-w-8,r.left+r.width/2-w/2))+'px';\
tip.style.top=(r.top-h-8<8?r.bottom+8:r.top-h-8)+'px'};\
const hide=()=>tip.classList.remove('on');\
g.addEventListener('mouseenter',show);g.addEventListener('mouseleave',hide);\
g.addEventListener('focus',show);g.addEventListener('blur',hide)}\
";

pub(super) fn page(report: &Report) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write_page(report, &mut out);
    out
}

fn write_page(report: &Report, out: &mut String) -> std::fmt::Result {
    let title = escape(&report.scenario);
    writeln!(out, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">")?;
    writeln!(out, "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">")?;
    writeln!(out, "<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>")?;
    writeln!(out, "<h1>{title}</h1>")?;
    if !report.description.is_empty() {
        writeln!(out, "<p>{}</p>", escape(&report.description))?;
    }
    writeln!(out, "<p>{} from {}</p>", report.duration.words(), report.start)?;
    writeln!(out, "<figure>\n{}</figure>", chart::svg(report, Place::InPage))?;
    write_comparison(report, out)?;
    for run in &report.runs {
        write_decisions(run, out)?;
    }
    writeln!(out, "<div id=\"tip\" role=\"status\"></div>\n<script>{SCRIPT}</script>\n</body>\n</html>")
}

fn write_comparison(report: &Report, out: &mut String) -> std::fmt::Result {
    write!(out, "<h2>Comparison</h2>\n<section><table><thead><tr><th></th>")?;
    for run in &report.runs {
        write!(out, "<th class=\"n\">{}</th>", escape(&run.policy))?;
    }
    writeln!(out, "</tr></thead><tbody>")?;
    for row in ROWS {
        let values: Vec<f64> = report.runs.iter().map(|run| (row.value)(&run.summary)).collect();
        let best = values.iter().copied().fold(f64::INFINITY, f64::min);
        let all_equal = values.iter().all(|value| *value == best);
        write!(out, "<tr><td>{}</td>", row.name)?;
        for (run, value) in report.runs.iter().zip(&values) {
            let class = if *value == best && !all_equal { "n best" } else { "n" };
            write!(out, "<td class=\"{class}\">{}</td>", escape(&(row.words)(&run.summary)))?;
        }
        writeln!(out, "</tr>")?;
    }
    writeln!(out, "</tbody></table></section>")
}

fn write_decisions(run: &Run, out: &mut String) -> std::fmt::Result {
    writeln!(out, "<h2>{} ({})</h2>", escape(&run.policy), escape(&run.kind))?;
    writeln!(
        out,
        "<section><table><thead><tr><th>time</th><th class=\"n\">load</th><th class=\"n\">ready</th><th>change</th><th>reason</th></tr></thead><tbody>"
    )?;
    for change in &run.changes {
        writeln!(
            out,
            "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td><td><details><summary>{}: {}</summary><pre>{}</pre></details></td></tr>",
            change.at,
            number(change.load),
            change.ready,
            escape(&moved(change)),
            change.code,
            escape(&change.why),
            escape(&change.explanation)
        )?;
    }
    let reasons: Vec<String> = run.reasons.iter().map(|(code, n)| format!("{n} {code}")).collect();
    writeln!(out, "</tbody></table></section>\n<p>All decisions by reason: {}</p>", reasons.join(", "))
}
