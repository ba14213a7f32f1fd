// click.mjs CHROMIUM PAGE: opens a page of `kiln graph draw` without a window, clicks as a hand does, and says what
// is wrong. The browser is told what to do through a pipe (its DevTools protocol).
import {spawn} from 'node:child_process';
import {mkdtempSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {pathToFileURL} from 'node:url';

const [, , program, page] = process.argv;
const profile = mkdtempSync(join(tmpdir(), 'kiln-page-'));
const browser = spawn(
    program,
    ['--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run', '--remote-debugging-pipe',
     '--window-size=1400,900', `--user-data-dir=${profile}`],
    {stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe']});

let text = '', session, number = 0;
const waiting = new Map(), events = [];
browser.stdio[4].on('data', data => {
  text += data;
  for (let end; (end = text.indexOf('\0')) >= 0; text = text.slice(end + 1)) {
    const message = JSON.parse(text.slice(0, end));
    if (message.id) waiting.get(message.id)(message);
    else events.push(message);
  }
});
function call(method, params = {}) {
  const id = ++number;
  browser.stdio[3].write(JSON.stringify({id, method, params, sessionId: session}) + '\0');
  return new Promise((done, failed) => waiting.set(id, m => m.error ? failed(new Error(method + ': ' + m.error.message)) : done(m.result)));
}
async function evaluate(expression) {
  const {result, exceptionDetails} = await call('Runtime.evaluate', {expression, returnByValue: true});
  if (exceptionDetails) throw new Error(expression + ': ' + exceptionDetails.exception.description);
  return result.value;
}
const mouse = (type, [x, y], more = {}) => call('Input.dispatchMouseEvent', {type, x, y, button: 'left', clickCount: 1, ...more});
// Hands shake: the mouse moves a little while it is down.
async function click([x, y]) {
  await mouse('mouseMoved', [x, y], {button: 'none'});
  await mouse('mousePressed', [x, y], {buttons: 1});
  await mouse('mouseMoved', [x + 1, y + 1], {buttons: 1});
  await mouse('mouseReleased', [x + 1, y + 1]);
}
const middle = selector => evaluate(`(() => {
  const b = document.querySelector(${JSON.stringify(selector)}).getBoundingClientRect();
  return [b.left + b.width / 2, b.top + b.height / 2];
})()`);

const wrong = [];
function expect(what, holds, seen) {
  if (!holds) wrong.push(`${what}: ${JSON.stringify(seen)}`);
}
const state = () => evaluate(`({
  facts: document.getElementById('facts').textContent,
  lines: [...document.querySelectorAll('a.chosen')].map(e => e.dataset.node),
  boxes: [...document.querySelectorAll('g.chosen')].map(e => e.id),
  place: document.querySelector('#drawing svg').style.transform,
})`);

async function run() {
  const {targetId} = await call('Target.createTarget', {url: 'about:blank'});
  session = (await call('Target.attachToTarget', {targetId, flatten: true})).sessionId;
  await call('Runtime.enable');
  await call('Page.enable');
  await call('Page.navigate', {url: pathToFileURL(page).href});
  while (!events.some(e => e.method === 'Page.loadEventFired')) await new Promise(done => setTimeout(done, 10));
  const ids = await evaluate(`Object.keys(facts).filter(id => document.querySelector('#drawing #' + id))`);
  expect('boxes of nodes in the drawing', ids.length > 3, ids);

  // A node of the drawing that can be seen: its line is marked and shown, its facts stand below.
  const seen = await evaluate(`${JSON.stringify(ids)}.filter(id => {
    const b = document.getElementById(id).getBoundingClientRect(), d = document.getElementById('drawing').getBoundingClientRect();
    return b.left > d.left && b.right < d.right && b.top > d.top && b.bottom < d.bottom;
  })`);
  expect('boxes that are in sight at first', seen.length > 0, seen);
  const id = seen[seen.length - 1];
  await click(await middle('#drawing #' + id));
  let now = await state();
  const [op, types, , place] = await evaluate(`facts['${id}']`);
  expect('the box that was clicked is marked', now.boxes.join() === id, now);
  expect('its line is marked', now.lines.join() === id, now);
  for (const part of [op, types, place]) expect('its facts say ' + part, now.facts.includes(part), now.facts);
  expect('its line is in sight', await evaluate(`(() => {
    const b = document.querySelector('a.chosen').getBoundingClientRect(), t = document.getElementById('text').getBoundingClientRect();
    return b.top >= t.top && b.bottom <= t.bottom;
  })()`), id);

  // A line of the text: the drawing goes to its box.
  const other = ids.find(each => each !== id);
  await evaluate(`document.querySelector('a[data-node="${other}"]').scrollIntoView({block: 'center', inline: 'start'})`);
  const [left, line] = await evaluate(`(() => {
    const b = document.querySelector('a[data-node="${other}"]').getBoundingClientRect(), t = document.getElementById('text').getBoundingClientRect();
    return [Math.max(b.left, t.left) + 20, b.top + b.height / 2];
  })()`);
  await click([left, line]);
  now = await state();
  expect('the box of the line that was clicked is marked', now.boxes.join() === other, now);
  const [x, y] = await middle('#drawing #' + other), drawing = await middle('#drawing');
  expect('and in the middle', Math.abs(x - drawing[0]) < 2 && Math.abs(y - drawing[1]) < 2, [x, y, drawing]);

  // Dragging moves the drawing and chooses nothing, even where it begins on a box.
  await mouse('mousePressed', [x, y], {buttons: 1});
  for (const far of [20, 60]) await mouse('mouseMoved', [x + far, y], {buttons: 1});
  await mouse('mouseReleased', [x + 60, y]);
  const dragged = await state();
  expect('dragging moves', dragged.place !== now.place, dragged);
  expect('and chooses nothing', dragged.boxes.join() === other, dragged);
  expect('what was dragged is where the mouse is', Math.abs((await middle('#drawing #' + other))[0] - x - 60) < 2, x);

  // The wheel makes it larger around the mouse.
  await mouse('mouseWheel', [x + 60, y], {button: 'none', deltaX: 0, deltaY: -200});
  const zoomed = await middle('#drawing #' + other);
  expect('the wheel zooms', (await state()).place !== dragged.place, dragged);
  expect('around the mouse', Math.abs(zoomed[0] - x - 60) < 3 && Math.abs(zoomed[1] - y) < 3, zoomed);

  // A launch: its kernel is shown, and its first node is marked in text and drawing.
  const launch = await evaluate(`Object.keys(facts).filter(isLaunch).findLast(id => partners(id).length)`);
  await evaluate(`document.querySelector('a[data-node="${launch}"]').scrollIntoView({block: 'center'})`);
  await click(await middle(`a[data-node="${launch}"]`));
  now = await state();
  const partner = await evaluate(`partners('${launch}')[0]`);
  expect('the launch that was clicked is marked', now.lines.includes(launch), now);
  expect('and its node', now.lines.includes(partner), now);
  expect('its kernel is shown', now.facts.includes('kernel ' + await evaluate(`facts['${launch}'][4]`)), now.facts);
  expect('what it reads from is marked',
    await evaluate(`document.querySelectorAll('a.near').length === facts['${launch}'][6].length`), launch);

  const errors = events.filter(e => e.method === 'Runtime.exceptionThrown').map(e => e.params.exceptionDetails);
  expect('errors of the script', errors.length === 0, errors);
}

const late = setTimeout(() => { console.error('the browser does not answer'); browser.kill('SIGKILL'); process.exit(1); }, 60000);
try {
  await run();
} catch (error) {
  wrong.push(error.message);
}
clearTimeout(late);
browser.kill();
await new Promise(done => browser.once('exit', done));
rmSync(profile, {recursive: true, force: true, maxRetries: 5});
for (const each of wrong) console.error(each);
process.exit(wrong.length ? 1 : 0);
