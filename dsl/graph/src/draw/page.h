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
function choose(id, from) {
  for (const e of document.querySelectorAll('.chosen')) e.classList.remove('chosen');
  const line = document.querySelector(`a[data-node="${id}"]`), box = svg && svg.getElementById(id);
  if (line) { line.classList.add('chosen'); if (from !== 'text') line.scrollIntoView({block: 'center', inline: 'nearest'}); }
  if (box) { box.classList.add('chosen'); if (from === 'text') centre(box); }
  const [op, types, attrs, place, family, doc] = facts[id];
  panel.textContent = '';
  add('b', op); add('code', types); if (attrs) add('code', '{' + attrs + '}');
  panel.append(document.createElement('br'));
  add('span', doc); panel.append(document.createElement('br'));
  add('i', family + (place ? ' \u00b7 ' + place : ''));
}
let x = 12, y = 12, scale = 1;
function move() { svg.style.transform = `translate(${x}px, ${y}px) scale(${scale})`; }
function centre(box) {
  const b = box.getBoundingClientRect(), d = drawing.getBoundingClientRect();
  x += d.left + d.width / 2 - b.left - b.width / 2; y += d.top + d.height / 2 - b.top - b.height / 2; move();
}
for (const line of document.querySelectorAll('a[data-node]')) line.onclick = () => choose(line.dataset.node, 'text');
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
