// The real program, and a browser.

import { spawn, type ChildProcess } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { request as httpsRequest } from "node:https";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

import { chromium, type Browser } from "playwright-core";

const ROOT = resolve(import.meta.dirname, "../..");

function program(): string {
  const path = process.env.BALLAST ?? join(ROOT, "target/debug/ballast");
  if (!existsSync(path)) throw new Error(`${path} is not there: cargo build -p ballast, or name another in BALLAST`);
  return path;
}

export async function browser(): Promise<Browser> {
  const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
  if (!existsSync(executablePath)) {
    throw new Error(`${executablePath} is not there: make web-tools, or name another in CHROMIUM`);
  }
  const args = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"];
  return chromium.launch({ executablePath, args: [...args, "--disable-component-update", "--disable-sync"] });
}

/** Waits until something is so, for as long as it takes. */
export async function eventually<T>(look: () => Promise<T | undefined | false>): Promise<T> {
  for (;;) {
    const seen = await look();
    if (seen !== undefined && seen !== false) return seen;
    await new Promise((done) => setTimeout(done, 50));
  }
}

export class Ballast {
  private constructor(
    private readonly process: ChildProcess,
    readonly operator: string,
    readonly gateway: string,
    private readonly api: string,
    readonly dataDir: string,
  ) {}

  static async up(): Promise<Ballast> {
    const dataDir = mkdtempSync(join(tmpdir(), "ballast-web-"));
    const ports = ["--api-port", "0", "--gateway-port", "0", "--operator-port", "0"];
    const process = start(["up", "--quiet", "--scrape-interval", "1", "--data-dir", dataDir, ...ports]);
    const running = await eventually(async () => {
      if (process.exitCode !== null) throw new Error(`ballast up ended with ${process.exitCode}`);
      const path = join(dataDir, "up.json");
      return existsSync(path) && (JSON.parse(readFileSync(path, "utf8")) as Record<string, string>);
    });
    const { operator = "", gateway = "", api = "" } = running;
    return new Ballast(process, operator, gateway, api, dataDir);
  }

  /** A node that asks operators for a token, on the same Kubernetes, of a namespace that has nothing. */
  async serveWithToken(token: string): Promise<{ url: string; stop: () => Promise<void> }> {
    const [gateway, operator] = [await freePort(), await freePort()];
    const listen = ["--gateway-addr", `127.0.0.1:${gateway}`, "--operator-addr", `127.0.0.1:${operator}`];
    const what = ["serve", "--quiet", "--namespace", "kube-public", "--controllers", "demand", "--store", "memory:"];
    const environment = { KUBECONFIG: join(this.dataDir, "kubeconfig"), BALLAST_OPERATOR_TOKEN: token };
    const process = start([...what, ...listen], environment);
    const url = `http://127.0.0.1:${operator}`;
    await eventually(async () => {
      if (process.exitCode !== null) throw new Error(`ballast serve ended with ${process.exitCode}`);
      return fetch(`${url}/health`).then(
        () => true,
        () => false,
      );
    });
    return { url, stop: () => ended(process) };
  }

  async create(path: string, object: object): Promise<void> {
    const body = JSON.stringify(object);
    const token = readFileSync(join(this.dataDir, "token"), "utf8").trim();
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    const answer = await new Promise<string>((done, failed) => {
      const options = { method: "POST", headers, ca: readFileSync(join(this.dataDir, "ca.crt")) };
      const request = httpsRequest(`${this.api}${path}`, options, (response) => {
        let text = `${response.statusCode} `;
        response.on("data", (piece: Buffer) => (text += piece.toString()));
        response.on("end", () => done(text));
      });
      request.on("error", failed);
      request.end(body);
    });
    if (!answer.startsWith("201 ")) throw new Error(answer);
  }

  /** A function that runs the example program, which the demo has brought. */
  function(name: string, annotations: Record<string, string>): Promise<void> {
    const labels = { app: name };
    const container = {
      name: "app",
      image: "python",
      command: ["python3", "/app/app.py"],
      ports: [{ containerPort: 8080 }],
      volumeMounts: [{ name: "app", mountPath: "/app" }],
    };
    const volumes = [{ name: "app", configMap: { name: "on-demand-app" } }];
    return this.create("/apis/apps/v1/namespaces/default/deployments", {
      apiVersion: "apps/v1",
      kind: "Deployment",
      metadata: { name, annotations: { "SlimFaas/Function": "true", ...annotations } },
      spec: {
        replicas: 0,
        selector: { matchLabels: labels },
        template: { metadata: { labels }, spec: { containers: [container], volumes } },
      },
    });
  }

  async stop(): Promise<void> {
    await ended(this.process);
    rmSync(this.dataDir, { recursive: true, force: true });
  }
}

function start(arguments_: string[], environment: Record<string, string> = {}): ChildProcess {
  const process_ = spawn(program(), arguments_, {
    stdio: ["ignore", "ignore", "inherit"],
    env: { ...process.env, ...environment },
  });
  // However the test ends.
  process.on("exit", () => process_.kill("SIGKILL"));
  return process_;
}

function ended(process: ChildProcess): Promise<void> {
  return new Promise((done) => {
    if (process.exitCode !== null) return done();
    process.on("exit", () => done());
    process.kill("SIGTERM");
  });
}

async function freePort(): Promise<number> {
  return new Promise((done) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address() as AddressInfo;
      server.close(() => done(port));
    });
  });
}
