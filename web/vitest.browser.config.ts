import { defineConfig } from "vitest/config";

// No test has a time limit: a busy machine is no failure.
export default defineConfig({
  test: { include: ["tests/**/*.test.ts"], testTimeout: 0, hookTimeout: 0, teardownTimeout: 2 ** 31 - 1, fileParallelism: false },
});
