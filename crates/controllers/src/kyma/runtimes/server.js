// Runs a Function: calls main(event, context) of handler.js for every HTTP request.
//
//   node server.js SOURCE_DIR WORK_DIR
//
// The source is copied to WORK_DIR, its dependencies are installed there, and the handler is loaded from there.
'use strict';

const fs = require('node:fs');
const http = require('node:http');
const https = require('node:https');
const path = require('node:path');
const { randomUUID } = require('node:crypto');
const { spawnSync } = require('node:child_process');
const { pathToFileURL } = require('node:url');

const [sourceDir, workDir] = process.argv.slice(2);
const env = process.env;
const port = Number(env.FUNC_PORT || 8080);
const handlerName = env.FUNC_HANDLER || 'main';
const timeoutSeconds = Number(env.FUNC_TIMEOUT || 180);
const bodyLimit = Number(env.REQ_MB_LIMIT || 1) * 1024 * 1024;
// where all pods share the host's network, each has an address of its own
const host = env.BALLAST_POD_IP || undefined;

const context = {
  'function-name': env.FUNC_NAME,
  namespace: env.SERVICE_NAMESPACE,
  runtime: env.FUNC_RUNTIME,
  timeout: timeoutSeconds,
  'memory-limit': env.FUNC_MEMORY_LIMIT,
};

function fail(message) {
  console.error(message);
  process.exit(1);
}

function installDependencies() {
  const manifest = path.join(workDir, 'package.json');
  if (!fs.existsSync(manifest)) return;
  const text = fs.readFileSync(manifest, 'utf8').trim();
  if (text === '') return fs.rmSync(manifest);
  let wanted;
  try {
    wanted = JSON.parse(text).dependencies || {};
  } catch (error) {
    return fail(`package.json is not JSON: ${error.message}`);
  }
  if (Object.keys(wanted).length === 0) return;
  console.log(`installing ${Object.keys(wanted).join(', ')}`);
  const args = ['install', '--omit=dev', '--no-audit', '--no-fund', '--cache', path.join(workDir, '.npm')];
  const npm = spawnSync('npm', args, { cwd: workDir, stdio: 'inherit' });
  if (npm.error) fail(`cannot run npm: ${npm.error.message}`);
  if (npm.status !== 0) fail(`npm install ended with ${npm.status ?? npm.signal}: see its output above`);
}

async function loadHandler() {
  // what a ConfigMap volume holds are links to what holds the files
  fs.cpSync(sourceDir, workDir, {
    recursive: true,
    dereference: true,
    filter: (source) => !path.basename(source).startsWith('..') && path.basename(source) !== '.git',
  });
  installDependencies();
  const file = ['handler.js', 'handler.mjs', 'handler.cjs']
    .map((name) => path.join(workDir, name))
    .find((candidate) => fs.existsSync(candidate));
  if (!file) fail(`there is no handler.js in the source`);
  const loaded = await import(pathToFileURL(file));
  const handler = loaded[handlerName] ?? loaded.default?.[handlerName] ?? loaded.default;
  if (typeof handler !== 'function') fail(`handler.js does not export a function ${handlerName}`);
  return handler;
}

// --- requests and responses, as far as handlers use Express's -------------------------------------------------------

function dressRequest(request) {
  const url = new URL(request.url, 'http://function');
  request.originalUrl = request.url;
  request.path = url.pathname;
  request.query = {};
  for (const key of new Set(url.searchParams.keys())) {
    const values = url.searchParams.getAll(key);
    request.query[key] = values.length === 1 ? values[0] : values;
  }
  request.get = request.header = (name) => request.headers[name.toLowerCase()];
  return request;
}

function dressResponse(response) {
  response.status = (code) => {
    response.statusCode = code;
    return response;
  };
  response.set = response.header = (name, value) => {
    if (typeof name === 'object') for (const [key, one] of Object.entries(name)) response.setHeader(key, one);
    else response.setHeader(name, value);
    return response;
  };
  response.type = (type) => response.set('Content-Type', type);
  response.json = (value) => {
    if (!response.hasHeader('Content-Type')) response.type('application/json; charset=utf-8');
    return response.end(JSON.stringify(value));
  };
  response.send = (value) => {
    if (value === undefined || value === null) return response.end();
    if (Buffer.isBuffer(value) || value instanceof Uint8Array) {
      if (!response.hasHeader('Content-Type')) response.type('application/octet-stream');
      return response.end(value);
    }
    if (typeof value === 'object' || typeof value === 'boolean' || typeof value === 'number') {
      return response.json(value);
    }
    if (!response.hasHeader('Content-Type')) response.type('text/html; charset=utf-8');
    return response.end(String(value));
  };
  response.sendStatus = (code) => response.status(code).type('text/plain').end(http.STATUS_CODES[code] || String(code));
  return response;
}

function readBody(request) {
  return new Promise((resolve, reject) => {
    const chunks = [];
    let size = 0;
    request.on('data', (chunk) => {
      size += chunk.length;
      if (size > bodyLimit) {
        reject(Object.assign(new Error(`the body is larger than ${bodyLimit} bytes`), { status: 413 }));
        request.resume();
      } else {
        chunks.push(chunk);
      }
    });
    request.on('end', () => resolve(Buffer.concat(chunks)));
    request.on('error', reject);
  });
}

function parseBody(request, raw) {
  const type = (request.headers['content-type'] || '').toLowerCase();
  if (raw.length === 0) return undefined;
  if (/[/+]json\b/.test(type)) {
    try {
      return JSON.parse(raw.toString('utf8'));
    } catch (error) {
      throw Object.assign(new Error(`the body is not JSON: ${error.message}`), { status: 400 });
    }
  }
  if (type.startsWith('application/x-www-form-urlencoded')) {
    return Object.fromEntries(new URLSearchParams(raw.toString('utf8')));
  }
  if (type === '' || type.startsWith('text/')) return raw.toString('utf8');
  return raw;
}

// --- CloudEvents ----------------------------------------------------------------------------------------------------

/** The attributes of a CloudEvent by their names; undefined for a plain request. */
function cloudEvent(request, body) {
  const type = request.headers['content-type'] || '';
  if (type.startsWith('application/cloudevents+json') && body && typeof body === 'object') {
    const { data, ...attributes } = body;
    return { attributes, data };
  }
  if (request.headers['ce-specversion'] === undefined) return undefined;
  const attributes = {};
  for (const [name, value] of Object.entries(request.headers)) {
    if (name.startsWith('ce-')) attributes[name.slice(3)] = value;
  }
  return { attributes, data: body };
}

function makeEvent(request, response, body) {
  const event = {
    data: body,
    extensions: { request, response },
    setResponseHeader: (name, value) => response.setHeader(name, value),
    setResponseContentType: (type) => response.type(type),
    setResponseStatus: (status) => response.status(status),
    publishCloudEvent: publish,
    emitCloudEvent: (type, source, data, attributes = {}) =>
      publish({
        specversion: '1.0', id: randomUUID(), time: new Date().toISOString(),
        datacontenttype: typeof data === 'object' ? 'application/json' : 'text/plain',
        ...attributes, type, source, data,
      }),
    buildResponseCloudEvent: (id, type, data) => {
      response.set({ 'ce-specversion': '1.0', 'ce-id': id, 'ce-type': type, 'ce-source': env.FUNC_NAME || 'function' });
      return data;
    },
  };
  const received = cloudEvent(request, body);
  if (received) {
    event.data = received.data;
    for (const [name, value] of Object.entries(received.attributes)) event[`ce-${name}`] = value;
    if (event['ce-eventtypeversion'] === undefined && typeof event['ce-type'] === 'string') {
      event['ce-eventtypeversion'] = event['ce-type'].split('.').pop();
    }
  }
  return event;
}

function publish(event) {
  const target = env.PUBLISHER_PROXY_ADDRESS;
  if (!target) return Promise.reject(new Error('PUBLISHER_PROXY_ADDRESS is not set: where are events to go?'));
  const client = target.startsWith('https:') ? https : http;
  return new Promise((resolve, reject) => {
    const headers = { 'Content-Type': 'application/cloudevents+json' };
    const request = client.request(target, { method: 'POST', headers }, (answer) => {
      answer.resume();
      answer.on('end', () =>
        answer.statusCode < 300 ? resolve() : reject(new Error(`the event was answered with ${answer.statusCode}`)));
    });
    request.on('error', reject);
    request.end(JSON.stringify(event));
  });
}

// --- the server -----------------------------------------------------------------------------------------------------

async function answer(handler, request, response) {
  dressRequest(request);
  dressResponse(response);
  if (request.path === '/healthz') return response.status(200).type('text/plain').end('OK');
  try {
    const body = parseBody(request, await readBody(request));
    request.body = body;
    const event = makeEvent(request, response, body);
    let timer;
    const late = new Promise((_, reject) => {
      const error = Object.assign(new Error(`no answer within ${timeoutSeconds} s`), { status: 408 });
      timer = setTimeout(() => reject(error), timeoutSeconds * 1000);
    });
    let result;
    try {
      result = await Promise.race([handler(event, context), late]);
    } finally {
      clearTimeout(timer);
    }
    // a handler that uses the response itself has answered, or is going to
    if (response.writableEnded || response.headersSent) return;
    if (result === undefined && handler.length > 2) return;
    response.send(result);
  } catch (error) {
    console.error(error);
    if (response.headersSent) return response.destroy();
    response.status(error?.status || 500).type('text/plain; charset=utf-8');
    response.end(error?.status ? error.message : 'Internal server error');
  }
}

async function main() {
  if (!sourceDir || !workDir) fail('usage: server.js SOURCE_DIR WORK_DIR');
  const handler = await loadHandler();
  const server = http.createServer((request, response) => answer(handler, request, response));
  server.on('error', (error) => fail(`cannot listen on ${host || '*'}:${port}: ${error.message}`));
  server.listen(port, host, () => console.log(`listening on ${host || '*'}:${port}`));
  process.on('SIGTERM', () => {
    server.close(() => process.exit(0));
    server.closeIdleConnections();
  });
}

main().catch((error) => fail(error?.stack || String(error)));
