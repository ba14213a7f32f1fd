// What is the same in each page: style and script.
#pragma once

namespace kiln::graph {

inline constexpr const char* kPageStyle = R"css(
html, body { margin: 0; height: 100%; }
body { display: flex; flex-direction: column; font: 13px Helvetica, Arial, sans-serif; color: #222; }
header, footer { padding: 6px 12px; background: #f4f4f6; flex: none; }
header span { color: #777; margin-left: 12px; }
footer { min-height: 3.2em; max-height: 9em; overflow: auto; border-top: 1px solid #ddd; }
footer b { font-size: 14px; } footer i { color: #777; font-style: normal; } footer code { margin-left: 8px; }
main { display: flex; flex: 1; min-height: 0; }
#text { flex: 0 1 46%; margin: 0; padding: 10px 12px; scroll-padding: 10px 12px; overflow: auto; font: 12px/1.45 monospace; border-right: 1px solid #ddd; }
#text:last-child { flex: 1; border: 0; }
#plan { flex: 0 0 24%; padding: 10px 12px; overflow: auto; border-left: 1px solid #ddd; }
#text + #plan { flex: 1; }
#plan .end { padding: 1px 8px; color: #555; font: 12px/1.45 monospace; }
#plan .launch { display: grid; grid-template-columns: 1fr auto; column-gap: 8px; position: relative; margin: 5px 0; padding: 4px 8px 6px; border: 1px solid #3d7ab5; border-radius: 5px; background: #e3f0fb; cursor: pointer; }
#plan .launch:hover { background: #cfe4f8; }
#plan .launch b { overflow-wrap: anywhere; } #plan .launch span { color: #444; white-space: nowrap; }
#plan .launch i { grid-column: 1 / 3; font-style: normal; color: #777; font-size: 11px; }
#plan .launch u { position: absolute; left: 0; bottom: 0; height: 3px; background: #3d7ab5; border-radius: 0 3px 3px 5px; }
#plan .launch.near { border-style: dashed; border-width: 2px; } #plan .launch.chosen { background: #ffe9a8; border-color: #e08a00; }
#plan .loop { margin: 6px 0; padding: 2px 8px; border: 1px solid #46547a; border-radius: 5px; background: #fafafc; } #plan .loop > span { color: #46547a; }
footer pre { margin: 4px 0 0; font: 11px/1.35 monospace; } footer.has-kernel { max-height: 40%; }
#text a { cursor: pointer; } #text a:hover { background: #eef; }
#text a.chosen { background: #ffe9a8; }
#drawing { flex: 1 1 54%; overflow: hidden; cursor: grab; }
#drawing svg { transform-origin: 0 0; }
#drawing g.node { cursor: pointer; } #drawing g.chosen path, #drawing g.chosen polygon { stroke: #e08a00; stroke-width: 3; }
)css";

// The drawing moves with the mouse and grows with its wheel; a click chooses.
inline constexpr const char* kPageScript = R"js(
const drawing = document.getElementById('drawing'), svg = drawing && drawing.querySelector('svg');
const panel = document.getElementById('facts');
function add(tag, text) { const e = document.createElement(tag); e.textContent = text; panel.append(e); return e; }
function mark(id, from) {
  const line = document.querySelector(`a[data-node="${id}"]`), box = svg && svg.getElementById(id);
  if (line) { line.classList.add('chosen'); if (from !== 'text') line.scrollIntoView({block: 'center', inline: 'nearest'}); }
  if (box) { box.classList.add('chosen'); if (from !== 'drawing') centre(box); }
}
// A launch is where its first node is.
const isLaunch = id => id[0] === 'l', placeOf = id => facts[id][3];
const partners = id => Object.keys(facts).filter(e => isLaunch(e) !== isLaunch(id) && placeOf(e) && placeOf(e) === placeOf(id));
function choose(id, from) {
  for (const name of ['chosen', 'near'])
    for (const e of document.querySelectorAll('.' + name)) e.classList.remove(name);
  for (const each of partners(id)) mark(each, '');
  mark(id, from);
  const [op, types, attrs, place, family, doc, sources, kernel] = facts[id];
  for (const each of sources || []) document.querySelector(`a[data-node="${each}"]`).classList.add('near');
  panel.textContent = '';
  panel.classList.toggle('has-kernel', isLaunch(id));
  add('b', op); add('code', types); if (attrs) add('code', isLaunch(id) ? attrs : '{' + attrs + '}');
  panel.append(document.createElement('br'));
  if (doc) { add('span', doc); panel.append(document.createElement('br')); }
  add('i', family + (place ? ' \u00b7 ' + place : ''));
  if (isLaunch(id)) add('pre', kernels[kernel]);
}
let x = 12, y = 12, scale = 1;
function move() { svg.style.transform = `translate(${x}px, ${y}px) scale(${scale})`; }
function centre(box) {
  const b = box.getBoundingClientRect(), d = drawing.getBoundingClientRect();
  x += d.left + d.width / 2 - b.left - b.width / 2; y += d.top + d.height / 2 - b.top - b.height / 2; move();
}
for (const line of document.querySelectorAll('a[data-node]'))
  line.onclick = () => choose(line.dataset.node, isLaunch(line.dataset.node) ? 'plan' : 'text');
const first = document.querySelector('a[data-node^="n0_"]');  // bodies come first in the text, main is what one looks for
if (first) first.scrollIntoView({block: 'center', inline: 'start'});
if (svg) {
  scale = Math.max(0.6, Math.min(1.2, (drawing.clientWidth - 24) / svg.getBoundingClientRect().width)); move();
  let grip = null, moved = false;
  drawing.onmousedown = e => { grip = [e.clientX - x, e.clientY - y, e.clientX, e.clientY]; moved = false; e.preventDefault(); };
  window.onmousemove = e => {
    if (!grip || !e.buttons) { grip = null; return; }  // it may have been let go outside of the window
    moved = moved || Math.hypot(e.clientX - grip[2], e.clientY - grip[3]) > 3;  // a click that shakes is a click
    if (moved) { x = e.clientX - grip[0]; y = e.clientY - grip[1]; move(); }
  };
  window.onmouseup = () => { grip = null; };
  drawing.onwheel = e => {
    const d = drawing.getBoundingClientRect(), f = Math.exp(-e.deltaY / 500), px = e.clientX - d.left, py = e.clientY - d.top;
    x = px - (px - x) * f; y = py - (py - y) * f; scale *= f; move(); e.preventDefault();
  };
  for (const box of svg.querySelectorAll('g.node')) if (facts[box.id]) box.onclick = () => { if (!moved) choose(box.id, 'drawing'); };
}
)js";

}  // namespace kiln::graph
