// What the page knows, kept up to date: by events where the port has them, by asking again where not.

import * as api from "./api";
import { eventsOf } from "./events";
import { addDecisions, keyOf, readingsOf, type Point, type Reading } from "./model";
import type { Activity, Decision, Status } from "./types";

export type Connection = "connecting" | "live" | "lost" | "token";

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
  readonly readings = new Map<string, Reading[]>();
  readonly points = new Map<string, Point[]>();
  connection: Connection = "connecting";
  problem = "";
  /** Whether the first answers are there. */
  isFilled = false;

  private readonly listeners = new Set<() => void>();
  private isTold = false;
  private stop = new AbortController();

  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  start(): void {
    this.stop.abort();
    this.stop = new AbortController();
    const { signal } = this.stop;
    void this.keep(signal, () => this.followStatus(signal));
    void this.keep(signal, () => this.followDecisions(signal));
  }

  useToken(token: string): void {
    api.setToken(token);
    this.connection = "connecting";
    this.tell();
    this.start();
  }

  /** One that was asked for by itself. */
  heardStatus(status: Status): void {
    this.noteStatus(status);
    this.tell();
  }

  private async keep(signal: AbortSignal, follow: () => Promise<void>): Promise<void> {
    while (!signal.aborted) {
      try {
        await follow();
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof api.TokenNeeded) {
          this.connection = "token";
          this.tell();
          this.stop.abort();
          return;
        }
        this.connection = "lost";
        this.problem = error instanceof Error ? error.message : String(error);
        this.tell();
      }
      await pause(AGAIN, signal);
    }
  }

  private async followStatus(signal: AbortSignal): Promise<void> {
    const stream = await api.ask("status-functions-stream", { signal, accept: "text/event-stream" });
    if (!stream.body) throw new Error("the stream of statuses is empty");
    for await (const { event, data } of eventsOf(stream.body)) {
      const told: unknown = JSON.parse(data);
      if (event === "state") this.heardAll(told as Status[]);
      if (event === "activity") this.heardActivity([told as Activity]);
      if (event === "activity_batch") this.heardActivity(told as Activity[]);
      this.connection = "live";
      this.tell();
    }
  }

  private async followDecisions(signal: AbortSignal): Promise<void> {
    const response = await api.ask("api/v1/decisions", { signal, accept: "text/event-stream, application/json;q=0.9" });
    const isStream = response.headers.get("content-type")?.startsWith("text/event-stream") ?? false;
    if (isStream && response.body) {
      this.decisions.clear();
      for await (const { data } of eventsOf(response.body)) {
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
      if (this.connection === "lost") this.connection = "live";
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

  private heardDecisions(news: Decision[], isAll = false): void {
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

