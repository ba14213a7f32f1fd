#include "report/report_page.h"

namespace kiln::autotune {

const char* const kReportPlots = R"js(
function element(name, attributes, ...children) {
  const svg = ['svg', 'g', 'path', 'circle', 'rect', 'line', 'text', 'title'].includes(name);
  const out = svg ? document.createElementNS('http://www.w3.org/2000/svg', name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) out.setAttribute(key, value);
  for (const child of children) out.append(child instanceof Node ? child : String(child));
  return out;
}

function digits(value) { return value < 10 ? value.toFixed(3) : value < 100 ? value.toFixed(2) : value.toFixed(1); }
function time(us) {
  if (us === null || us === undefined || !(us > 0)) return '–';
  return us < 1e3 ? digits(us) + ' µs' : us < 1e6 ? digits(us / 1e3) + ' ms' : digits(us / 1e6) + ' s';
}
function configText(config) { return Object.entries(config).map(([name, value]) => name + '=' + value).join(' '); }
function sameConfig(a, b) { return configText(a) === configText(b); }

const frame = {width: 420, height: 270, left: 62, right: 12, top: 12, bottom: 38};

// A scale of 1, 2, 5 steps, linear or logarithmic, onto pixels.
function scale(low, high, from, to, log) {
  if (log) { low = Math.log10(low); high = Math.log10(high); }
  if (!(high > low)) { high = low + (Math.abs(low) || 1) * 0.1; low -= (Math.abs(low) || 1) * 0.1; }
  const margin = (high - low) * 0.05;
  low -= margin; high += margin;
  const place = value => from + ((log ? Math.log10(value) : value) - low) / (high - low) * (to - from);
  const ticks = [];
  if (log && high - low > 1.2) {
    for (let power = Math.ceil(low); power <= high; ++power) ticks.push(10 ** power);
  } else {
    const first = log ? 10 ** low : low, last = log ? 10 ** high : high;
    const rough = (last - first) / 4, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find(unit => unit * power >= rough) * power;
    for (let value = Math.ceil(first / step) * step; value <= last; value += step) ticks.push(value);
  }
  return {place, ticks};
}

function axes(svg, x, y, xLabel, yLabel, xText, yText) {
  const bottom = frame.height - frame.bottom, right = frame.width - frame.right;
  for (const tick of x.ticks) {
    svg.append(element('line', {class: 'grid', x1: x.place(tick), x2: x.place(tick), y1: frame.top, y2: bottom}),
               element('text', {x: x.place(tick), y: bottom + 15, 'text-anchor': 'middle'}, xText(tick)));
  }
  for (const tick of y.ticks) {
    svg.append(element('line', {class: 'grid', x1: frame.left, x2: right, y1: y.place(tick), y2: y.place(tick)}),
               element('text', {x: frame.left - 6, y: y.place(tick) + 4, 'text-anchor': 'end'}, yText(tick)));
  }
  svg.append(element('path', {class: 'axis', d: `M${frame.left} ${frame.top}V${bottom}H${right}`}),
             element('text', {x: (frame.left + right) / 2, y: frame.height - 6, 'text-anchor': 'middle'}, xLabel),
             element('text', {x: 12, y: (frame.top + bottom) / 2, 'text-anchor': 'middle',
                              transform: `rotate(-90 12 ${(frame.top + bottom) / 2})`}, yLabel));
}

function shortTime(us) {
  const text = (value, unit) => Number(value.toPrecision(3)) + unit;
  return us < 1e3 ? text(us, 'µs') : us < 1e6 ? text(us / 1e3, 'ms') : text(us / 1e6, 's');
}

function newPlot(kind) {
  return element('svg', {class: kind, viewBox: `0 0 ${frame.width} ${frame.height}`, role: 'img'});
}
function horizontal(low, high, log) { return scale(low, high, frame.left, frame.width - frame.right, log); }
function vertical(low, high, log) { return scale(low, high, frame.height - frame.bottom, frame.top, log); }

function scatter(job, valid) {
  const points = valid.filter(c => c.predicted > 0);
  if (points.length < 2) return null;
  const svg = newPlot('scatter'), xs = points.map(c => c.predicted), ys = points.map(c => c.us);
  const x = horizontal(Math.min(...xs), Math.max(...xs), true), y = vertical(Math.min(...ys), Math.max(...ys), true);
  axes(svg, x, y, 'predicted', 'measured', shortTime, shortTime);
  const low = Math.max(Math.min(...xs), Math.min(...ys)), high = Math.min(Math.max(...xs), Math.max(...ys));
  if (low < high) {
    svg.append(element('path', {class: 'equal', d: `M${x.place(low)} ${y.place(low)}L${x.place(high)} ${y.place(high)}`}));
  }
  for (const c of points.slice().reverse()) {
    const kind = sameConfig(c.config, job.best) ? ' best' : sameConfig(c.config, job.default) ? ' default' : '';
    svg.append(element('circle', {class: 'dot' + kind, cx: x.place(c.predicted), cy: y.place(c.us), r: kind ? 5 : 3.5},
      element('title', {}, `${configText(c.config)}\nmeasured ${time(c.us)}, predicted ${time(c.predicted)}`)));
  }
  return svg;
}

function convergence(job) {
  const steps = job.convergence || [];
  if (steps.length < 2) return null;
  const svg = newPlot('convergence'), counts = steps.map(s => s[0]), times = steps.map(s => s[1]);
  const x = horizontal(Math.min(...counts), Math.max(...counts)), y = vertical(Math.min(...times), Math.max(...times));
  axes(svg, x, y, 'configs measured', 'best so far', n => Number.isInteger(n) ? n : '', shortTime);
  let path = '';
  for (const [count, us] of steps) path += path ? `H${x.place(count)}V${y.place(us)}` : `M${x.place(count)} ${y.place(us)}`;
  svg.append(element('path', {class: 'path', d: path}));
  for (const [count, us] of steps) {
    svg.append(element('circle', {class: 'dot', cx: x.place(count), cy: y.place(us), r: 3},
                       element('title', {}, `${count} measured: ${time(us)}`)));
  }
  return svg;
}

// The best time of each pair of values, over all other parameters.
function heatMap(valid, xName, yName) {
  const values = name => [...new Set(valid.map(c => c.config[name]))].sort((a, b) => a - b);
  const xs = values(xName), ys = values(yName), best = new Map();
  for (const c of valid) {
    const key = c.config[xName] + ' ' + c.config[yName];
    if (!best.has(key) || c.us < best.get(key).us) best.set(key, c);
  }
  const fastest = Math.min(...valid.map(c => c.us));
  const svg = newPlot('heat'), width = (frame.width - frame.left - frame.right) / xs.length;
  const height = (frame.height - frame.top - frame.bottom) / ys.length;
  xs.forEach((xValue, i) => {
    const left = frame.left + i * width;
    svg.append(element('text', {x: left + width / 2, y: frame.height - frame.bottom + 15, 'text-anchor': 'middle'}, xValue));
    ys.forEach((yValue, j) => {
      const top = frame.height - frame.bottom - (j + 1) * height, c = best.get(xValue + ' ' + yValue);
      if (!c) return;
      svg.append(element('rect', {class: 'cell', x: left, y: top, width, height, 'fill-opacity': 0.06 + 0.6 * (fastest / c.us) ** 2},
                         element('title', {}, `${configText(c.config)}\n${time(c.us)}`)));
      if (width > 34 && height > 14) {
        svg.append(element('text', {class: 'value', x: left + width / 2, y: top + height / 2 + 4}, (c.us / fastest).toFixed(2)));
      }
    });
  });
  ys.forEach((yValue, j) => {
    svg.append(element('text', {x: frame.left - 6, y: frame.height - frame.bottom - (j + 0.5) * height + 4, 'text-anchor': 'end'}, yValue));
  });
  const middle = (frame.top + frame.height - frame.bottom) / 2;
  svg.append(element('text', {x: (frame.left + frame.width - frame.right) / 2, y: frame.height - 6, 'text-anchor': 'middle'}, xName),
             element('text', {x: 12, y: middle, 'text-anchor': 'middle', transform: `rotate(-90 12 ${middle})`}, yName));
  return svg;
}
)js";

}  // namespace kiln::autotune
