// Chromium without a screen, driven over a pipe (the DevTools protocol).
const { spawn } = require('child_process');
const fs = require('fs');
const http = require('http');
const path = require('path');

const PATIENCE_MS = 25000;
const FLAGS = [
  '--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage',
  '--disable-background-networking', '--disable-component-update', '--no-first-run',
  '--no-default-browser-check', '--disable-extensions', '--mute-audio',
];

class Browser {
  static async start() {
    const browser = new Browser();
    browser.profile = path.resolve(fs.mkdtempSync('profile-'));
    const home = { HOME: browser.profile, XDG_CONFIG_HOME: browser.profile, XDG_CACHE_HOME: browser.profile };
    const flags = [...FLAGS, `--user-data-dir=${browser.profile}`, '--remote-debugging-pipe', 'about:blank'];
    browser.process = spawn('chromium', flags, {
      env: { ...process.env, ...home },
      stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'],
    });
    browser.exited = new Promise((resolve) => browser.process.on('exit', resolve));
    browser.waiting = new Map();
    browser.listeners = new Set();
    browser.number = 0;
    browser.read(browser.process.stdio[4]);
    browser.process.stdio[3].on('error', () => {});
    browser.process.on('error', (error) => browser.fail(error));
    browser.exited.then(() => browser.fail(new Error('the browser is gone')));
    return browser;
  }

  read(stream) {
    let rest = '';
    stream.setEncoding('utf8');
    stream.on('data', (text) => {
      const messages = (rest + text).split('\0');
      rest = messages.pop();
      messages.map(JSON.parse).forEach((message) => this.receive(message));
    });
  }

  receive(message) {
    if (message.id) {
      const { resolve, reject } = this.waiting.get(message.id);
      this.waiting.delete(message.id);
      if (message.error) reject(new Error(message.error.message));
      else resolve(message.result);
      return;
    }
    if (/targetCrashed$/.test(message.method)) this.fail(new Error('a page crashed'));
    for (const listener of this.listeners) listener(message);
  }

  fail(error) {
    this.failed = error;
    for (const { reject } of this.waiting.values()) reject(error);
    this.waiting.clear();
  }

  call(method, params = {}, sessionId = undefined) {
    if (this.failed) return Promise.reject(this.failed);
    const id = ++this.number;
    this.process.stdio[3].write(JSON.stringify({ id, method, params, sessionId }) + '\0');
    return this.promise(id, method);
  }

  promise(key, what) {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`${what}: no answer`)), PATIENCE_MS);
      const done = (then) => (value) => { clearTimeout(timer); then(value); };
      this.waiting.set(key, { resolve: done(resolve), reject: done(reject) });
    });
  }

  event(method, sessionId, where = () => true) {
    const key = Symbol(method);
    const promise = this.promise(key, method);
    const listener = (message) => {
      if (message.method !== method || message.sessionId !== sessionId || !where(message.params)) return;
      this.listeners.delete(listener);
      this.waiting.get(key).resolve(message.params);
      this.waiting.delete(key);
    };
    this.listeners.add(listener);
    return promise;
  }

  async tab(url) {
    const { targetId } = await this.call('Target.createTarget', { url: 'about:blank' });
    const { sessionId } = await this.call('Target.attachToTarget', { targetId, flatten: true });
    const tab = new Tab(this, targetId, sessionId);
    await tab.call('Page.enable');
    if (url) await tab.go(url);
    return tab;
  }

  async close() {
    await this.call('Browser.close').catch(() => {});
    const timer = setTimeout(() => this.process.kill('SIGKILL'), 5000);
    await this.exited;
    clearTimeout(timer);
    fs.rmSync(this.profile, { recursive: true, force: true, maxRetries: 5 });
  }
}

class Tab {
  constructor(browser, target, session) {
    Object.assign(this, { browser, target, session });
  }

  call(method, params) {
    return this.browser.call(method, params, this.session);
  }

  async go(url) {
    const loaded = this.browser.event('Page.loadEventFired', this.session);
    const { errorText } = await this.call('Page.navigate', { url });
    if (errorText) throw new Error(`${url}: ${errorText}`);
    await loaded;
  }

  async evaluate(expression) {
    const { result, exceptionDetails } = await this.call('Runtime.evaluate', {
      expression, returnByValue: true, awaitPromise: true,
    });
    if (exceptionDetails) throw new Error(exceptionDetails.exception.description);
    return result.value;
  }

  async until(expression) {
    for (const end = Date.now() + PATIENCE_MS; Date.now() < end;) {
      const value = await this.evaluate(expression);
      if (value) return value;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    throw new Error(`never true: ${expression}`);
  }
}

// Serves what `pages` (path: text, or a function of the request) has, on loopback.
function serve(pages) {
  const server = http.createServer((request, response) => {
    const page = pages[request.url.split('?')[0]];
    response.setHeader('Content-Type', 'text/html; charset=utf-8');
    if (page === undefined) response.writeHead(404).end('nothing here');
    else if (typeof page === 'function') page(request, response);
    else response.end(page);
  });
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve({
      base: `http://127.0.0.1:${server.address().port}`,
      close: () => { server.closeAllConnections(); server.close(); },
    }));
  });
}

// Does `work` with a browser and pages, ends both, and exits by what came of it.
async function main(pages, work) {
  const site = await serve(pages);
  const browser = await Browser.start();
  try {
    await work(browser, site.base);
  } finally {
    await browser.close();
    site.close();
  }
}

module.exports = { main };
