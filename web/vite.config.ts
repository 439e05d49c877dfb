import { defineConfig } from "vitest/config";

export default defineConfig({
  // Relative, so that it works behind a proxy that adds a prefix.
  base: "./",
  build: {
    target: "es2022",
    // dist stays in place, because cargo looks at it; so its files have fixed names.
    emptyOutDir: false,
    modulePreload: false,
    rollupOptions: {
      output: { entryFileNames: "app.js", chunkFileNames: "[name].js", assetFileNames: "app[extname]" },
    },
  },
  test: { include: ["src/**/*.test.{ts,tsx}"] },
});
