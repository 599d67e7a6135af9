import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

export default defineConfig({
  base: "./", // addresses are relative: the console works behind any path
  plugins: [react()],
  build: {
    target: "es2022",
    cssTarget: ["chrome123", "firefox120", "safari17.5"], // those have light-dark(); what it is made into for older ones shows nothing
    assetsInlineLimit: 0, // the content security policy lets no data: in
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
});
