// The operators' port. Paths are relative to /ui/, so that a prefix of a proxy does not matter.

import type { ControlChange, Controls, DeadLetter, Decision, RangeAnswer, Replayed, Status } from "./types";

const TOKEN = "ballast-operator-token";

/** The port asks for a token, or for another one. */
export class TokenNeeded extends Error {}

/** Until the tab is closed. */
export function setToken(token: string): void {
  sessionStorage.setItem(TOKEN, token);
}

export async function ask(path: string, init: RequestInit & { accept?: string } = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  const token = sessionStorage.getItem(TOKEN);
  if (token) headers.set("authorization", `Bearer ${token}`);
  if (init.accept) headers.set("accept", init.accept);
  const response = await fetch(`../${path}`, { ...init, headers, redirect: "error", cache: "no-store" });
  if (response.status === 401) throw new TokenNeeded("the port asks for a token");
  if (!response.ok) throw new Error(`${response.status}: ${await refusal(response)}`);
  return response;
}

async function refusal(response: Response): Promise<string> {
  const text = (await response.text()).slice(0, 500);
  try {
    const { error } = JSON.parse(text) as { error?: unknown };
    return typeof error === "string" ? error : text;
  } catch {
    return text || response.statusText;
  }
}

async function json<T>(path: string, init?: RequestInit): Promise<T> {
  return (await (await ask(path, init)).json()) as T;
}

export const statuses = (signal: AbortSignal) => json<Status[]>("status-functions", { signal });

export const status = (name: string, signal: AbortSignal) =>
  json<Status>(`status-function/${encodeURIComponent(name)}`, { signal });

export const decisions = (query: string, signal: AbortSignal) =>
  json<Decision[]>(`api/v1/decisions${query}`, { signal });

export const wake = (name: string) => ask(`wake-function/${encodeURIComponent(name)}`, { method: "POST" });

const dead = (name: string, rest = "") => `async-function-dead/${encodeURIComponent(name)}${rest}`;

export interface DeadPage {
  letters: DeadLetter[];
  /** Names the next page. */
  next: string | null;
}

export async function deadLetters(name: string, after: string | null, signal: AbortSignal): Promise<DeadPage> {
  const query = after === null ? "" : `?continue=${encodeURIComponent(after)}`;
  const response = await ask(dead(name, query), { signal });
  return { letters: (await response.json()) as DeadLetter[], next: response.headers.get("ballast-continue") };
}

export const replay = (name: string, id: string) =>
  ask(dead(name, `/${encodeURIComponent(id)}/replay`), { method: "POST" });

export const bury = (name: string, id: string) => ask(dead(name, `/${encodeURIComponent(id)}`), { method: "DELETE" });

interface Named {
  kind: string;
  namespace: string;
  name: string;
}

const query = ({ kind, namespace, name }: Named) => new URLSearchParams({ kind, namespace, name }).toString();
const post = <T>(path: string, body: object) =>
  json<T>(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });

export const lastDecision = (object: Named, signal: AbortSignal) => decisions(`?${query(object)}&each=1`, signal);

export const policyOf = (object: Named) => json<{ policy: string; text: string }>(`api/v1/what-if?${query(object)}`);

export const whatIf = ({ kind, namespace, name }: Named, policy: string) =>
  post<Replayed>("api/v1/what-if", { kind, namespace, name, policy });

export const controlsOf = (object: Named, signal: AbortSignal) =>
  json<Controls>(`api/v1/controls?${query(object)}`, { signal });

/** The patch; written only if that is asked for. */
export const control = ({ kind, namespace, name }: Named, change: ControlChange, write: boolean) =>
  post<{ patch: unknown; written: boolean }>("api/v1/controls", { kind, namespace, name, ...change, write });

const REPLICAS = ["desired", "current", "ready"].map((what) => `slimfaas_autoscaler_${what}_replicas`);
const LAST_CALL = "ballast_function_last_call_seconds";

/** The store keeps what is asked for from then on, for as long as it is asked for. The last calls are for replays. */
export async function keepReplicas(signal: AbortSignal): Promise<void> {
  // Without a sample it would be refused, though asked for it was.
  const counts = [...REPLICAS, LAST_CALL].map((name) => `count(${name})`);
  const query = `(${counts.join(" + ")}) or vector(0)`;
  await ask("debug/promql/eval", { method: "POST", body: JSON.stringify({ query }), signal });
}

export function storedReplicas(name: string, start: number, end: number, signal: AbortSignal): Promise<RangeAnswer> {
  const selector = `{__name__=~"${REPLICAS.join("|")}",function=${JSON.stringify(name)}}`;
  const step = Math.max(5, Math.ceil((end - start) / 1000));
  const query = new URLSearchParams({ query: selector, start: String(start), end: String(end), step: String(step) });
  return json<RangeAnswer>(`api/v1/query_range?${query}`, { signal });
}
