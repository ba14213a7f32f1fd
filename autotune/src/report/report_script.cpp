#include "report/report_page.h"

namespace kiln::autotune {

const char* const kReportScript = R"js(
const kRows = 20;  // of a ranked table before "show all"
const data = JSON.parse(document.getElementById('data').textContent);
const page = document.getElementById('page');
page.replaceChildren();

function percent(share) { return share > 0 ? (100 * share).toFixed(0) + ' %' : '–'; }
function times(ratio) { return ratio > 0 ? ratio.toFixed(2) + '×' : '–'; }
function count(value) { return value === undefined || value === null ? '–' : String(value); }
function cell(text, kind) { return element('td', kind ? {class: kind} : {}, text); }
function headings(names) {
  return element('thead', {}, element('tr', {}, ...names.map((name, i) => element('th', i === 0 ? {class: 'left'} : {}, name))));
}
function bar(share, text) {
  const mark = element('i', {style: `width:${Math.max(0, Math.min(1, share || 0)) * 56}px`});
  return element('td', {class: 'bar'}, element('div', {}, text, element('span', {}, mark)));
}
function validOf(job) { return (job.candidates || []).filter(c => !c.failure && c.us > 0).sort((a, b) => a.us - b.us); }

function totals() {
  const gains = data.jobs.map(job => job.speedup).filter(gain => gain > 0);
  const mean = gains.length ? Math.exp(gains.reduce((sum, gain) => sum + Math.log(gain), 0) / gains.length) : 0;
  const minutes = data.seconds < 90 ? data.seconds.toFixed(1) + ' s' : (data.seconds / 60).toFixed(1) + ' min';
  const done = data.jobs.filter(job => job.state === 'done').length;
  const items = [[done + ' / ' + data.jobs.length, 'jobs done'], [data.measured, 'configs measured'], [data.reused, 'reused'],
                 [data.failed, 'failed'], [times(mean), 'mean gain over default'], [minutes, 'wall time']];
  return element('div', {class: 'totals', id: 'totals'},
                 ...items.map(([value, name]) => element('div', {class: 'total'}, element('b', {}, value), element('span', {}, name))));
}

function summaryTable() {
  const most = Math.max(1, ...data.jobs.map(job => job.speedup || 0));
  const rows = data.jobs.map((job, i) => {
    const name = element('td', {class: 'name'}, element('a', {href: '#job' + i}, job.name));
    if (!job.best) return element('tr', {}, name, element('td', {class: 'left bad', colspan: 8}, job.error || job.state));
    return element('tr', {}, name, cell(time(job.default_us)), cell(time(job.best_us)),
                   bar((job.speedup || 0) / most, times(job.speedup)), bar(job.roofline_share, percent(job.roofline_share)),
                   cell(job.bound), cell(job.correlation ? job.correlation.toFixed(2) : '–'),
                   cell((job.measured + job.reused) + ' / ' + job.space), cell(configText(job.best), 'config'));
  });
  return element('div', {class: 'scroll'}, element('table', {id: 'summary'},
    headings(['job', 'default', 'best', 'speed-up', 'of roofline', 'bound', 'model rank', 'measured', 'best config']),
    element('tbody', {}, ...rows)));
}

function rankedRow(job, c, rank) {
  const best = sameConfig(c.config, job.best), fallback = sameConfig(c.config, job.default);
  const figures = c.figures || {};
  const config = cell(configText(c.config), 'config');
  if (best) config.append(element('span', {class: 'tag'}, 'chosen'));
  if (fallback) config.append(element('span', {class: 'tag'}, 'default'));
  if (c.reused) config.append(element('span', {class: 'tag'}, 'reused'));
  return element('tr', best ? {class: 'best'} : fallback ? {class: 'default'} : {}, cell(rank), config, cell((c.us / 1e3).toPrecision(4)),
                 cell(c.interval), cell(c.speedup),
                 bar(job.roofline_us / c.us, percent(job.roofline_us / c.us)), cell(count(figures.registers)), cell(count(figures.spill_bytes)));
}

function rankedTable(job, valid) {
  const body = element('tbody', {});
  valid.slice(0, kRows).forEach((c, i) => body.append(rankedRow(job, c, i + 1)));
  const out = element('div', {class: 'scroll'}, element('table', {class: 'ranked'},
    headings(['rank', 'config', 'ms', '99 %', 'speed-up', 'of roofline', 'registers', 'spill bytes']), body));
  out.querySelectorAll('th')[1].className = 'left';
  if (valid.length > kRows) {
    const button = element('button', {type: 'button'}, `show all ${valid.length}`);
    button.addEventListener('click', () => {
      valid.slice(kRows).forEach((c, i) => body.append(rankedRow(job, c, kRows + i + 1)));
      button.remove();
    });
    out.append(button);
  }
  return out;
}

function plot(title, svg) { return element('div', {class: 'plot'}, element('h3', {}, title), svg); }

// Two parameters of those that vary, to be chosen.
function heatPlot(valid) {
  const names = Object.keys(valid.length ? valid[0].config : {}).filter(name => new Set(valid.map(c => c.config[name])).size > 1);
  if (names.length < 2) return null;
  const choose = chosen => element('select', {}, ...names.map(name => element('option', name === chosen ? {selected: ''} : {}, name)));
  const x = choose(names[0]), y = choose(names[1]), place = element('div', {});
  const draw = () => place.replaceChildren(heatMap(valid, x.value, y.value));
  x.addEventListener('change', draw);
  y.addEventListener('change', draw);
  draw();
  return element('div', {class: 'plot'}, element('h3', {}, 'time over the best, by ', x, ' and ', y), place);
}

function failures(job) {
  const failed = (job.candidates || []).filter(c => c.failure);
  if (!failed.length) return null;
  return element('ul', {class: 'failures'}, ...failed.map(c => element('li', {}, element('code', {}, configText(c.config)),
    ' ', element('span', {class: 'bad'}, c.failure), element('pre', {}, c.message || ''))));
}

function jobSection(job, i) {
  const valid = validOf(job), body = element('div', {});
  const gain = job.best ? `${time(job.best_us)}, ${times(job.speedup)} the default` : job.error || job.state;
  const out = element('details', {id: 'job' + i}, element('summary', {}, job.name + ' ', element('span', {class: 'quiet'}, gain)), body);
  const where = [job.target, job.place, job.finished === false ? 'search not finished' : ''].filter(Boolean).join(' · ');
  body.append(element('p', {class: 'quiet'}, where));
  if (job.error) body.append(element('p', {class: 'bad'}, job.error));
  if (valid.length) body.append(rankedTable(job, valid));
  const plots = element('div', {class: 'plots'});
  for (const [title, svg] of [['model against measurement', scatter(job, valid)], ['convergence', convergence(job)]]) {
    if (svg) plots.append(plot(title, svg));
  }
  const heat = heatPlot(valid), failed = failures(job);
  if (heat) plots.append(heat);
  body.append(plots);
  if (failed) body.append(element('h3', {}, 'failed'), failed);
  return out;
}

const ended = data.out_of_budget ? 'The budget ended before the search.' : data.stopped ? 'The run was stopped.' : '';
page.append(element('h1', {}, 'Kiln tuning report'), element('div', {class: 'quiet'}, ended), totals(),
            element('h2', {}, 'Gains over the default'), summaryTable());
for (const note of data.notes) page.append(element('p', {class: 'quiet'}, note));
page.append(element('h2', {}, 'Jobs'));
data.jobs.forEach((job, i) => page.append(jobSection(job, i)));
if (data.jobs.length) document.getElementById('job0').open = true;
function openTarget() {
  const section = document.getElementById(location.hash.slice(1));
  if (section && section.tagName === 'DETAILS') section.open = true;
}
addEventListener('hashchange', openTarget);
openTarget();
)js";

}  // namespace kiln::autotune
