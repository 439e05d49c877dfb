// What the page knows, kept up to date: by events where the port has them, by asking again where not.

import * as api from "./api";
import { eventsOf } from "./events";
import { addDecisions, keyOf, readingsOf, type Point, type Reading } from "./model";
import type { Activity, Decision, Row, Status } from "./types";

export type Connection = "connecting" | "live" | "lost" | "token";

type Feed = "status" | "decisions" | "objects";
const FEEDS: Feed[] = ["status", "decisions", "objects"];

/** Between two questions, where the port has no events. */
const POLL = 2_000;
/** All decisions anew: what is gone is not told otherwise. */
const ANEW = 60_000;
const AGAIN = 2_000;
/** Of live points and readings of one object. */
const MOST_POINTS = 2_000;

export class Live {
  readonly decisions = new Map<string, Decision[]>();
  readonly statuses = new Map<string, Status>();
  /** Pipelines, vertices, Sets, definitions and Hvpas, by their keys. */
  readonly rows = new Map<string, Row>();
  readonly readings = new Map<string, Reading[]>();
  readonly points = new Map<string, Point[]>();
  /** From when the port asks for a token until it takes one. */
  needsToken = false;
  /** How many were presented in vain. */
  nRefused = 0;
  /** Whether the first answers are there. */
  isFilled = false;
  areRowsFilled = false;

  private readonly opened = new Set<Feed>();
  private readonly problems = new Map<Feed, string>();
  private isTrying = false;
  private readonly listeners = new Set<() => void>();
  private isTold = false;
  private stop = new AbortController();

  get connection(): Connection {
    if (this.needsToken && !this.isTrying) return "token";
    if (this.problems.size > 0) return "lost";
    return FEEDS.every((feed) => this.opened.has(feed)) ? "live" : "connecting";
  }

  get problem(): string {
    return [...this.problems.values()].join("; ");
  }

  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  start(): void {
    this.stop.abort();
    this.stop = new AbortController();
    const { signal } = this.stop;
    this.opened.clear();
    this.problems.clear();
    void this.keep("status", signal, () => this.followStatus(signal));
    void this.keep("decisions", signal, () => this.followDecisions(signal));
    void this.keep("objects", signal, () => this.followObjects(signal));
  }

  /** Asks for nothing until it is started again. */
  rest(): void {
    this.stop.abort();
  }

  useToken(token: string): void {
    api.setToken(token);
    this.isTrying = true;
    this.tell();
    this.start();
  }

  /** One that was asked for by itself. */
  heardStatus(status: Status): void {
    this.noteStatus(status);
    this.tell();
  }

  private async keep(feed: Feed, signal: AbortSignal, follow: () => Promise<void>): Promise<void> {
    while (!signal.aborted) {
      try {
        await follow();
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof api.TokenNeeded) {
          if (this.isTrying) this.nRefused += 1;
          this.needsToken = true;
          this.isTrying = false;
          this.tell();
          this.stop.abort();
          return;
        }
        this.problems.set(feed, error instanceof Error ? error.message : String(error));
      }
      if (signal.aborted) return;
      this.opened.delete(feed);
      this.tell();
      await pause(AGAIN, signal);
    }
  }

  /** The port answers. */
  private noteOpen(feed: Feed): void {
    this.opened.add(feed);
    this.problems.delete(feed);
    this.needsToken = false;
    this.isTrying = false;
    this.tell();
  }

  private async followStatus(signal: AbortSignal): Promise<void> {
    const stream = await api.ask("status-functions-stream", { signal, accept: "text/event-stream" });
    if (!stream.body) throw new Error("the stream of statuses is empty");
    this.noteOpen("status");
    for await (const { event, data } of eventsOf(stream.body)) {
      const told: unknown = JSON.parse(data);
      if (event === "state") this.heardAll(told as Status[]);
      if (event === "activity") this.heardActivity([told as Activity]);
      if (event === "activity_batch") this.heardActivity(told as Activity[]);
      this.tell();
    }
  }

  private async followDecisions(signal: AbortSignal): Promise<void> {
    const response = await api.ask("api/v1/decisions", { signal, accept: "text/event-stream, application/json;q=0.9" });
    this.noteOpen("decisions");
    const isStream = response.headers.get("content-type")?.startsWith("text/event-stream") ?? false;
    if (isStream && response.body) {
      this.decisions.clear();
      for await (const { event, data } of eventsOf(response.body)) {
        // Too slow for all that happened: ask anew.
        if (event === "missed") return;
        const told = JSON.parse(data) as Decision | Decision[];
        this.heardDecisions(Array.isArray(told) ? told : [told]);
      }
      return;
    }
    this.heardDecisions((await response.json()) as Decision[], true);
    const anew = Date.now() + ANEW;
    while (!signal.aborted && Date.now() < anew) {
      await pause(POLL, signal);
      // The browser slows down what nobody sees; so should the questions.
      if (document.hidden) continue;
      this.heardDecisions(await api.decisions(this.since(), signal));
    }
  }

  private async followObjects(signal: AbortSignal): Promise<void> {
    const stream = await api.ask("api/v1/objects", { signal, accept: "text/event-stream" });
    if (!stream.body) throw new Error("the stream of objects is empty");
    this.noteOpen("objects");
    for await (const { event, data } of eventsOf(stream.body)) {
      const told: unknown = JSON.parse(data);
      if (event === "objects") this.rows.clear();
      if (event === "gone") for (const key of told as string[]) this.rows.delete(key);
      if (event === "objects" || event === "changed") for (const row of told as Row[]) this.rows.set(row.key, row);
      this.areRowsFilled = true;
      this.tell();
    }
  }

  /** Asks only for what is newer than all that is known. */
  private since(): string {
    let newest = "";
    for (const known of this.decisions.values()) {
      const at = known.at(-1)?.at ?? "";
      if (newest === "" || Date.parse(at) > Date.parse(newest)) newest = at;
    }
    return newest === "" ? "" : `?since=${encodeURIComponent(newest)}`;
  }

  /** That a decision still holds is no event, but its figures may have changed. */
  heardDecisions(news: Decision[], isAll = false): void {
    if (isAll) this.decisions.clear();
    addDecisions(this.decisions, news);
    for (const decision of news) {
      const key = keyOf(decision);
      const known = this.readings.get(key) ?? [];
      const last = known.at(-1)?.at ?? 0;
      const newer = readingsOf(decision).filter((reading) => reading.at > last);
      if (newer.length > 0) this.readings.set(key, [...known, ...newer].slice(-MOST_POINTS));
    }
    if (isAll) this.isFilled = true;
    if (news.length > 0 || isAll) this.tell();
  }

  private heardAll(all: Status[]): void {
    this.statuses.clear();
    for (const status of all) this.noteStatus(status);
    this.isFilled = true;
  }

  private heardActivity(news: Activity[]): void {
    for (const { Name, Active, LastCall } of news) {
      for (const [key, status] of this.statuses) {
        if (status.Name !== Name) continue;
        const HeldCalls = Math.min(status.HeldCalls, Active);
        this.statuses.set(key, { ...status, ActiveCalls: Active, HeldCalls, LastCall });
      }
    }
  }

  private noteStatus(status: Status): void {
    const key = keyOf({ kind: status.PodType, namespace: status.Namespace, name: status.Name });
    this.statuses.set(key, status);
    const known = this.points.get(key) ?? [];
    const [current, ready] = [status.NumberRequested, status.NumberReady];
    const last = known.at(-1);
    if (last?.current === current && last.ready === ready) return;
    this.points.set(key, [...known, { at: Date.now() / 1000, current, ready }].slice(-MOST_POINTS));
  }

  /** Once for all that happens before the next turn. */
  private tell(): void {
    if (this.isTold) return;
    this.isTold = true;
    setTimeout(() => {
      this.isTold = false;
      for (const listener of this.listeners) listener();
    });
  }
}

export function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}

