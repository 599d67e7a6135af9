import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

export default defineConfig({
  base: "./", // addresses are relative: the console works behind any path
  plugins: [react()],
  build: {
    target: "es2022",
    assetsInlineLimit: 0, // the content security policy lets no data: in
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
});
