import { useEffect, useReducer, useState } from "preact/hooks";

import type { Live } from "../live";

/** Draws again whenever there is news. */
export function useNews(live: Live): void {
  const [, again] = useReducer((n: number) => n + 1, 0);
  useEffect(() => live.subscribe(() => again(undefined as never)), [live]);
}

/** The time, for what is so long ago. */
export function useNow(every = 1000): number {
  const [now, setNow] = useState(() => Date.now() / 1000);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now() / 1000), every);
    return () => clearInterval(timer);
  }, [every]);
  return now;
}

/** Runs until the view is gone or what it is about changes. */
export function useTask(task: (signal: AbortSignal) => Promise<void>, about: unknown[]): void {
  useEffect(() => {
    const stop = new AbortController();
    task(stop.signal).catch((error: unknown) => {
      if (!stop.signal.aborted) console.warn(error);
    });
    return () => stop.abort();
  }, about);
}

export function useMedia(query: string): boolean {
  const [matches, setMatches] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const list = matchMedia(query);
    const changed = () => setMatches(list.matches);
    changed();
    list.addEventListener("change", changed);
    return () => list.removeEventListener("change", changed);
  }, [query]);
  return matches;
}

export function useHash(): string {
  const [hash, setHash] = useState(() => location.hash);
  useEffect(() => {
    const moved = () => setHash(location.hash);
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  return hash;
}

export type Theme = "system" | "light" | "dark";
const THEME = "ballast-theme";

export function useTheme(): [Theme, (theme: Theme) => void] {
  const [theme, setTheme] = useState<Theme>(() => {
    const kept = localStorage.getItem(THEME);
    return kept === "light" || kept === "dark" ? kept : "system";
  });
  useEffect(() => {
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    localStorage.setItem(THEME, theme);
    dispatchEvent(new Event("theme"));
  }, [theme]);
  return [theme, setTheme];
}
