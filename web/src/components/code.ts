/** How a field looks in which code is typed. At 14 px Chrome cuts off the underscores of DejaVu Sans Mono, the font of many Linux desktops. */
export const CODE = { input: { fontFamily: "var(--mantine-font-family-monospace)", fontSize: "13px" } };
