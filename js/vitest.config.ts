// How the front end's tests run: in a simulated DOM, no browser.
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    environment: "happy-dom",
    include: ["src/**/*.test.{ts,tsx}"],
    // Two cores are enough; a test that hangs is a defect, not something to wait for.
    testTimeout: 10_000,
  },
});
